// Every behaviour of the panel without Qt and ROS; prints what failed, and exits with the number of failures.
#include <cstdio>
#include <string>

#include "rosa_rviz/panel_model.hpp"

using rosa_rviz::Alert;
using rosa_rviz::PanelModel;
using rosa_rviz::Refusal;

static int failures = 0;
#define CHECK(what) \
  do { \
    if (!(what)) { \
      std::printf("%s:%d: %s\n", __func__, __LINE__, #what); \
      ++failures; \
    } \
  } while (false)

static const Alert kAlert{17, true, "arm_fault", "a fault", {"resume", "abort"}};

static PanelModel waiting()
{
  PanelModel model;
  model.on_status("panda0", "pick", "waiting_for_human", true, 10.0);
  model.on_alert("panda0", kAlert, 10.0);
  return model;
}

static void those_that_wait_come_first()
{
  PanelModel model;
  for (const char * robot : {"a", "b", "c", "d"}) {
    model.on_status(robot, "pick", "executing", true, 10.0);
  }
  model.on_alert("d", kAlert, 10.0);
  model.on_arm("c", true, 10.0);
  const auto rows = model.rows(10.1);
  std::string order;
  for (const auto & row : rows) {
    order += row.robot;
  }
  CHECK(order == "dcab");
  CHECK(rows[0].waits && rows[0].reason == "arm_fault: a fault" && rows[0].choices.size() == 2);
  CHECK(rows[1].stopped);
}

static void a_silent_robot_is_shown_as_silent_and_not_decided()
{
  PanelModel model = waiting();
  CHECK(!model.rows(10.9)[0].silent);
  CHECK(model.rows(11.1)[0].silent);
  CHECK(model.decide("panda0", 17, "resume", "anna", "clear", 11.1).refusal == Refusal::kSilent);
  model.on_arm("panda0", false, 11.1);
  CHECK(model.rows(11.1)[0].silent);  // its arm's node is not its runtime
}

static void a_decision_needs_a_name_a_reason_and_an_offered_choice()
{
  PanelModel model = waiting();
  CHECK(model.decide("other", 17, "resume", "anna", "clear", 10.1).refusal == Refusal::kUnknownRobot);
  CHECK(model.decide("panda0", 16, "resume", "anna", "clear", 10.1).refusal == Refusal::kNothingToDecide);
  CHECK(model.decide("panda0", 17, "retry", "anna", "clear", 10.1).refusal == Refusal::kUnknownChoice);
  CHECK(model.decide("panda0", 17, "resume", " ", "clear", 10.1).refusal == Refusal::kNoName);
  CHECK(model.decide("panda0", 17, "resume", "anna", "\n", 10.1).refusal == Refusal::kNoReason);
  const auto sent = model.decide("panda0", 17, "resume", "anna", "clear", 10.1);
  CHECK(sent.refusal == Refusal::kNone && sent.alert_id == 17 && sent.choice == "resume");
  CHECK(sent.decided_by == "anna" && sent.why == "clear" && !sent.release);
}

static void one_decision_at_a_time_and_an_answer_that_does_not_come()
{
  PanelModel model = waiting();
  CHECK(model.decide("panda0", 17, "resume", "anna", "clear", 10.1).refusal == Refusal::kNone);
  CHECK(model.rows(10.2)[0].asking);
  CHECK(model.decide("panda0", 17, "abort", "ben", "enough", 10.2).refusal == Refusal::kAsking);
  model.on_status("panda0", "pick", "waiting_for_human", true, 16.0);
  CHECK(!model.rows(16.0)[0].asking);
  CHECK(model.rows(16.0)[0].outcome.rfind("no answer", 0) == 0);
  CHECK(model.decide("panda0", 17, "abort", "ben", "enough", 16.0).refusal == Refusal::kNone);
  model.answered("panda0", false, "anna decided resume", 16.1);
  CHECK(model.rows(16.1)[0].outcome == "not taken: anna decided resume");
  CHECK(!model.rows(16.1)[0].asking);
}

static void a_settled_alert_takes_its_buttons_with_it()
{
  PanelModel model = waiting();
  model.on_alert("panda0", {16, false, "", "", {}}, 10.1);  // the end of an older one, late
  CHECK(model.rows(10.1)[0].waits);
  model.on_alert("panda0", {17, false, "", "", {}}, 10.2);
  CHECK(!model.rows(10.2)[0].waits && model.rows(10.2)[0].choices.empty());
  CHECK(model.decide("panda0", 17, "resume", "anna", "clear", 10.2).refusal == Refusal::kNothingToDecide);
  model.on_alert("panda0", {18, true, "slo_missed", "late", {"retry"}}, 10.3);
  CHECK(model.rows(10.3)[0].alert_id == 18 && model.rows(10.3)[0].outcome.empty());
}

static void only_a_latched_stop_is_released_also_of_a_silent_robot()
{
  PanelModel model;
  model.on_status("panda0", "", "idle", true, 10.0);
  CHECK(model.decide("panda0", 0, rosa_rviz::kRelease, "anna", "clear", 10.1).refusal == Refusal::kNothingToDecide);
  model.on_arm("panda0", true, 10.1);
  const auto sent = model.decide("panda0", 0, rosa_rviz::kRelease, "anna", "clear", 20.0);
  CHECK(sent.refusal == Refusal::kNone && sent.release);
  CHECK(model.rows(20.0)[0].asking);
}

static void names_from_the_network_are_bounded()
{
  PanelModel model;
  for (int number = 0; number < 10000; ++number) {
    model.on_status("r" + std::to_string(number), "", "idle", true, 10.0);
  }
  CHECK(model.rows(10.0).size() == rosa_rviz::kMaxRobots);
}

static void every_refusal_has_its_words()
{
  for (int number = 1; number <= static_cast<int>(Refusal::kAsking); ++number) {
    CHECK(std::string(rosa_rviz::words(static_cast<Refusal>(number))).size() > 10);
  }
}

int main()
{
  those_that_wait_come_first();
  a_silent_robot_is_shown_as_silent_and_not_decided();
  a_decision_needs_a_name_a_reason_and_an_offered_choice();
  one_decision_at_a_time_and_an_answer_that_does_not_come();
  a_settled_alert_takes_its_buttons_with_it();
  only_a_latched_stop_is_released_also_of_a_silent_robot();
  names_from_the_network_are_bounded();
  every_refusal_has_its_words();
  std::printf(failures == 0 ? "all behaviours hold\n" : "%d checks failed\n", failures);
  return failures;
}
