// The widget around PanelModel. RViz spins its node in the thread that draws, so nothing here needs a lock.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <QLabel>
#include <QLineEdit>
#include <QTimer>
#include <QVBoxLayout>

#include <rclcpp/rclcpp.hpp>
#include <rosa_interfaces/msg/arm_status.hpp>
#include <rosa_interfaces/msg/operator_alert.hpp>
#include <rosa_interfaces/msg/robot_status.hpp>
#include <rosa_interfaces/srv/operator_decision.hpp>
#include <rosa_interfaces/srv/release_emergency_stop.hpp>
#include <rviz_common/panel.hpp>
#include <std_msgs/msg/bool.hpp>

#include "rosa_rviz/panel_model.hpp"

namespace rosa_rviz
{

class OperatorPanel : public rviz_common::Panel
{
  Q_OBJECT

public:
  explicit OperatorPanel(QWidget * parent = nullptr);
  void onInitialize() override;
  void load(const rviz_common::Config & config) override;
  void save(rviz_common::Config config) const override;

private:
  using ArmStatus = rosa_interfaces::msg::ArmStatus;
  using OperatorAlert = rosa_interfaces::msg::OperatorAlert;
  using RobotStatus = rosa_interfaces::msg::RobotStatus;
  using OperatorDecision = rosa_interfaces::srv::OperatorDecision;
  using ReleaseEmergencyStop = rosa_interfaces::srv::ReleaseEmergencyStop;

  // What belongs to one robot in ROS.
  struct Lines
  {
    rclcpp::Subscription<RobotStatus>::SharedPtr status;
    rclcpp::Subscription<ArmStatus>::SharedPtr arm;
    rclcpp::Subscription<OperatorAlert>::SharedPtr alert;
    rclcpp::Client<OperatorDecision>::SharedPtr decide;
    rclcpp::Client<ReleaseEmergencyStop>::SharedPtr release;
    rclcpp::Publisher<std_msgs::msg::Bool>::SharedPtr stop;
  };

  // What belongs to one robot on the screen. Its buttons are made anew only when its choices change.
  struct Box
  {
    QWidget * widget = nullptr;
    QLabel * title = nullptr;
    QLabel * reason = nullptr;
    QLabel * outcome = nullptr;
    QWidget * buttons = nullptr;
    std::string buttons_of;
  };

  static double now_s();
  void look_for_robots();
  void connect_robot(const std::string & robot);
  void press(const std::string & robot, std::uint64_t alert_id, const std::string & choice);
  void draw();
  void draw_row(const Row & row, int place);
  void make_buttons(Box & box, const Row & row);

  rclcpp::Node::SharedPtr node_;
  PanelModel model_;
  std::map<std::string, Lines> lines_;
  std::map<std::string, Box> boxes_;
  QLineEdit * who_ = nullptr;
  QLineEdit * why_ = nullptr;
  QVBoxLayout * list_ = nullptr;
  QTimer * look_ = nullptr;
  QTimer * draw_ = nullptr;
};

}  // namespace rosa_rviz
