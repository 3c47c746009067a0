# Read by CMake at `project()` of rosa_interfaces, when its targets are not there yet: at the end each type support becomes
# one file for the compiler. A message's file is short and what it includes is long, so this halves the time. Not for a
# package with a message and an action of one name (control_msgs), which have functions of one name.
function(unite_type_supports)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    if(target MATCHES "__rosidl_typesupport_")
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL unite_type_supports)
