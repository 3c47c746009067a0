#include "rosa_rviz/operator_panel.hpp"

#include <chrono>
#include <utility>

#include <QFormLayout>
#include <QHBoxLayout>
#include <QPushButton>
#include <QScrollArea>

#include <pluginlib/class_list_macros.hpp>
#include <rviz_common/display_context.hpp>
#include <rviz_common/ros_integration/ros_node_abstraction_iface.hpp>

namespace rosa_rviz
{

namespace
{

constexpr const char * kStatusTopic = "/robot_status";
constexpr const char * kStatusType = "rosa_interfaces/msg/RobotStatus";
constexpr int kLookEveryMs = 1000;
constexpr int kDrawEveryMs = 200;

// What robots say is shown as text and never as markup.
QLabel * label(QWidget * parent)
{
  auto * made = new QLabel(parent);
  made->setTextFormat(Qt::PlainText);
  made->setWordWrap(true);
  return made;
}

QString text(const std::string & words)
{
  return QString::fromStdString(words).replace('_', ' ');
}

}  // namespace

OperatorPanel::OperatorPanel(QWidget * parent)
: rviz_common::Panel(parent)
{
  auto * layout = new QVBoxLayout(this);
  auto * person = new QFormLayout();
  who_ = new QLineEdit(this);
  why_ = new QLineEdit(this);
  who_->setMaxLength(64);
  why_->setMaxLength(240);
  person->addRow("Who decides", who_);
  person->addRow("Why", why_);
  layout->addLayout(person);
  auto * area = new QScrollArea(this);
  auto * inside = new QWidget(area);
  list_ = new QVBoxLayout(inside);
  list_->addStretch(1);
  area->setWidget(inside);
  area->setWidgetResizable(true);
  layout->addWidget(area, 1);
  look_ = new QTimer(this);
  draw_ = new QTimer(this);
  connect(look_, &QTimer::timeout, this, [this] {look_for_robots();});
  connect(draw_, &QTimer::timeout, this, [this] {draw();});
}

void OperatorPanel::onInitialize()
{
  const auto abstraction = getDisplayContext()->getRosNodeAbstraction().lock();
  if (!abstraction) {
    return;
  }
  node_ = abstraction->get_raw_node();
  look_for_robots();
  look_->start(kLookEveryMs);
  draw_->start(kDrawEveryMs);
}

void OperatorPanel::load(const rviz_common::Config & config)
{
  Panel::load(config);
  QString who;
  if (config.mapGetString("Who decides", &who)) {
    who_->setText(who);
  }
}

void OperatorPanel::save(rviz_common::Config config) const
{
  Panel::save(config);
  config.mapSetValue("Who decides", who_->text());
}

double OperatorPanel::now_s()
{
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void OperatorPanel::look_for_robots()
{
  const std::string ending = kStatusTopic;
  for (const auto & [topic, types] : node_->get_topic_names_and_types()) {
    const bool named = topic.size() > ending.size() + 1 &&
      topic.compare(topic.size() - ending.size(), ending.size(), ending) == 0;
    if (!named || types.empty() || types.front() != kStatusType) {
      continue;
    }
    const auto robot = topic.substr(1, topic.size() - ending.size() - 1);
    if (lines_.size() < kMaxRobots && lines_.count(robot) == 0) {
      connect_robot(robot);
    }
  }
}

void OperatorPanel::connect_robot(const std::string & robot)
{
  const auto latched = rclcpp::QoS(1).transient_local();
  const auto name = [&robot](const char * rest) {return "/" + robot + rest;};
  Lines lines;
  lines.status = node_->create_subscription<RobotStatus>(
    name(kStatusTopic), latched, [this, robot](const RobotStatus & status) {
      model_.on_status(robot, status.task, status.state, status.server_connected, now_s());
    });
  lines.arm = node_->create_subscription<ArmStatus>(
    name("/arm_status"), rclcpp::QoS(10), [this, robot](const ArmStatus & status) {
      model_.on_arm(robot, status.emergency_stop, now_s());
    });
  lines.alert = node_->create_subscription<OperatorAlert>(
    name("/operator_alert"), latched, [this, robot](const OperatorAlert & alert) {
      model_.on_alert(robot, {alert.id, alert.active, alert.cause, alert.reason, alert.choices}, now_s());
    });
  lines.decide = node_->create_client<OperatorDecision>(name("/runtime_node/operator_decision"));
  lines.release = node_->create_client<ReleaseEmergencyStop>(name("/arm_node/release_emergency_stop"));
  lines.stop = node_->create_publisher<std_msgs::msg::Bool>(name("/emergency_stop"), rclcpp::QoS(10));
  lines_.emplace(robot, std::move(lines));
}

void OperatorPanel::press(const std::string & robot, std::uint64_t alert_id, const std::string & choice)
{
  const auto decision = model_.decide(
    robot, alert_id, choice, who_->text().toStdString(), why_->text().toStdString(), now_s());
  if (decision.refusal != Refusal::kNone) {
    boxes_[robot].outcome->setText(words(decision.refusal));
    return;
  }
  const auto told = [this, robot](bool accepted, const std::string & reason) {
      model_.answered(robot, accepted, reason, now_s());
      if (accepted) {
        why_->clear();
      }
    };
  const auto & lines = lines_.at(robot);
  if (decision.release) {
    auto request = std::make_shared<ReleaseEmergencyStop::Request>();
    request->decided_by = decision.decided_by;
    request->why = decision.why;
    lines.release->async_send_request(
      request, [told](rclcpp::Client<ReleaseEmergencyStop>::SharedFuture answer) {
        told(answer.get()->accepted, answer.get()->reason);
      });
    return;
  }
  auto request = std::make_shared<OperatorDecision::Request>();
  request->alert_id = decision.alert_id;
  request->choice = decision.choice;
  request->decided_by = decision.decided_by;
  request->why = decision.why;
  lines.decide->async_send_request(
    request, [told](rclcpp::Client<OperatorDecision>::SharedFuture answer) {
      told(answer.get()->accepted, answer.get()->reason);
    });
}

void OperatorPanel::draw()
{
  int place = 0;
  for (const auto & row : model_.rows(now_s())) {
    draw_row(row, place++);
  }
}

void OperatorPanel::draw_row(const Row & row, int place)
{
  auto & box = boxes_[row.robot];
  if (box.widget == nullptr) {
    box.widget = new QWidget(list_->parentWidget());
    auto * layout = new QVBoxLayout(box.widget);
    box.title = label(box.widget);
    box.reason = label(box.widget);
    box.outcome = label(box.widget);
    layout->addWidget(box.title);
    layout->addWidget(box.reason);
    layout->addWidget(box.outcome);
  }
  if (list_->indexOf(box.widget) != place) {
    list_->removeWidget(box.widget);
    list_->insertWidget(place, box.widget);
  }
  auto title = QString::fromStdString(row.robot) + ": " +
    (row.silent ? QString("silent, what is shown is old") : row.stopped ? QString("emergency stop") : text(row.state));
  if (!row.task.empty()) {
    title += " (" + text(row.task) + (row.server_connected ? ")" : ", no server)");
  }
  box.title->setText(title);
  box.title->setEnabled(!row.silent);
  box.reason->setText(text(row.reason));
  box.reason->setVisible(row.waits);
  if (!row.outcome.empty() || row.asking) {
    box.outcome->setText(row.asking ? QString("asked ...") : QString::fromStdString(row.outcome));
  }
  make_buttons(box, row);
}

void OperatorPanel::make_buttons(Box & box, const Row & row)
{
  std::string wanted = std::to_string(row.alert_id) + (row.stopped ? " stopped" : " free") + (row.asking ? " asking" : "");
  for (const auto & choice : row.choices) {
    wanted += " " + choice;
  }
  if (box.buttons != nullptr && wanted == box.buttons_of) {
    return;
  }
  if (box.buttons != nullptr) {
    box.buttons->deleteLater();
  }
  box.buttons_of = wanted;
  box.buttons = new QWidget(box.widget);
  auto * layout = new QHBoxLayout(box.buttons);
  layout->setContentsMargins(0, 0, 0, 0);
  const auto add = [&](const QString & words, bool enabled, auto pressed) {
      auto * button = new QPushButton(words, box.buttons);
      button->setEnabled(enabled);
      connect(button, &QPushButton::clicked, this, pressed);
      layout->addWidget(button);
    };
  for (const auto & choice : row.choices) {
    add(text(choice), !row.asking, [this, robot = row.robot, id = row.alert_id, choice] {press(robot, id, choice);});
  }
  if (row.stopped) {
    add("release the stop", !row.asking, [this, robot = row.robot] {press(robot, 0, kRelease);});
  } else {
    // A stop needs no name and no answer: it is published, as by every other panel.
    add(
      "emergency stop", true, [this, robot = row.robot] {
        std_msgs::msg::Bool pressed;
        pressed.data = true;
        lines_.at(robot).stop->publish(pressed);
      });
  }
  layout->addStretch(1);
  box.widget->layout()->addWidget(box.buttons);
}

}  // namespace rosa_rviz

PLUGINLIB_EXPORT_CLASS(rosa_rviz::OperatorPanel, rviz_common::Panel)
