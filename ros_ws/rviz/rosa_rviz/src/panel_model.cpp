#include "rosa_rviz/panel_model.hpp"

#include <algorithm>
#include <tuple>

namespace rosa_rviz
{

const char * words(Refusal refusal)
{
  switch (refusal) {
    case Refusal::kNone: return "";
    case Refusal::kUnknownRobot: return "no robot of this name was heard";
    case Refusal::kSilent: return "the robot is silent: look at it before you decide";
    case Refusal::kNothingToDecide: return "the alert is settled: nothing is waiting for a decision";
    case Refusal::kUnknownChoice: return "the robot does not offer this choice";
    case Refusal::kNoName: return "say who decides: the robot keeps it";
    case Refusal::kNoReason: return "say why: the robot keeps it with the decision";
    case Refusal::kAsking: return "a decision is under way; wait for its answer";
  }
  return "";
}

namespace
{

bool blank(const std::string & text)
{
  return text.find_first_not_of(" \t\n\r") == std::string::npos;
}

}  // namespace

PanelModel::Robot * PanelModel::of(const std::string & robot)
{
  auto found = robots_.find(robot);
  if (found == robots_.end()) {
    if (robots_.size() >= kMaxRobots) {
      return nullptr;
    }
    found = robots_.emplace(robot, Robot{}).first;
  }
  return &found->second;
}

bool PanelModel::silent(const Robot & robot, double now_s)
{
  return now_s - robot.heard_s > kSilentAfterS;
}

bool PanelModel::asking(const Robot & robot, double now_s)
{
  return robot.asked_s.has_value() && now_s - *robot.asked_s <= kAnswerWithinS;
}

void PanelModel::on_status(
  const std::string & robot, const std::string & task, const std::string & state, bool server_connected, double now_s)
{
  if (Robot * one = of(robot)) {
    one->task = task;
    one->state = state;
    one->server_connected = server_connected;
    one->heard_s = now_s;
  }
}

void PanelModel::on_arm(const std::string & robot, bool stopped, double)
{
  // The arm's node lives on when the runtime has ended, so it is no sign of life of the one that decides.
  if (Robot * one = of(robot)) {
    one->stopped = stopped;
  }
}

void PanelModel::on_alert(const std::string & robot, const Alert & alert, double)
{
  Robot * one = of(robot);
  if (one == nullptr) {
    return;
  }
  if (alert.active) {
    if (!one->alert || one->alert->id != alert.id) {
      one->outcome.clear();
      one->asked_s.reset();
    }
    one->alert = alert;
  } else if (one->alert && one->alert->id == alert.id) {
    one->alert.reset();
    one->asked_s.reset();
  }
}

Decision PanelModel::decide(
  const std::string & robot, std::uint64_t alert_id, const std::string & choice, const std::string & who, const std::string & why,
  double now_s)
{
  Decision decision{Refusal::kNone, robot, alert_id, choice, who, why, choice == kRelease};
  const auto found = robots_.find(robot);
  const auto refuse = [&decision](Refusal refusal) {
      decision.refusal = refusal;
      return decision;
    };
  if (found == robots_.end()) {
    return refuse(Refusal::kUnknownRobot);
  }
  Robot & one = found->second;
  if (decision.release) {
    // The arm judges it, so a runtime that is silent does not matter.
    if (!one.stopped) {
      return refuse(Refusal::kNothingToDecide);
    }
  } else {
    if (silent(one, now_s)) {
      return refuse(Refusal::kSilent);
    }
    if (!one.alert || one.alert->id != alert_id) {
      return refuse(Refusal::kNothingToDecide);
    }
    const auto & choices = one.alert->choices;
    if (std::find(choices.begin(), choices.end(), choice) == choices.end()) {
      return refuse(Refusal::kUnknownChoice);
    }
  }
  if (blank(who)) {
    return refuse(Refusal::kNoName);
  }
  if (blank(why)) {
    return refuse(Refusal::kNoReason);
  }
  if (asking(one, now_s)) {
    return refuse(Refusal::kAsking);
  }
  one.asked_s = now_s;
  one.outcome.clear();
  return decision;
}

void PanelModel::answered(const std::string & robot, bool accepted, const std::string & reason, double)
{
  const auto found = robots_.find(robot);
  if (found != robots_.end()) {
    found->second.asked_s.reset();
    found->second.outcome = accepted ? "taken" : "not taken: " + reason;
  }
}

std::vector<Row> PanelModel::rows(double now_s) const
{
  std::vector<Row> found;
  for (const auto & [name, robot] : robots_) {
    Row row;
    row.robot = name;
    row.task = robot.task;
    row.state = robot.state;
    row.silent = silent(robot, now_s);
    row.server_connected = robot.server_connected;
    row.stopped = robot.stopped;
    row.waits = robot.alert.has_value();
    if (robot.alert) {
      row.alert_id = robot.alert->id;
      row.reason = robot.alert->cause + ": " + robot.alert->reason;
      row.choices = robot.alert->choices;
    }
    row.asking = asking(robot, now_s);
    const bool unanswered = robot.asked_s.has_value() && !row.asking;
    row.outcome = unanswered ? "no answer: look at the robot before you decide again" : robot.outcome;
    found.push_back(row);
  }
  std::stable_sort(
    found.begin(), found.end(), [](const Row & a, const Row & b) {
      const auto rank = [](const Row & row) {
          return std::make_tuple(!row.waits, !(row.stopped || row.silent));
        };
      return rank(a) < rank(b);
    });
  return found;
}

}  // namespace rosa_rviz
