// What the panel shows and what its buttons may do. No Qt and no ROS: messages and the time come as arguments, so that it is
// tested where neither is installed. Times are those of one steady clock, in seconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rosa_rviz
{

constexpr double kSilentAfterS = 1.0;    // RobotStatus comes at 10 Hz; ten missing in a row are not chance
constexpr double kAnswerWithinS = 5.0;   // of a service call; then the button works again
constexpr std::size_t kMaxRobots = 256;  // names come from the network

struct Alert
{
  std::uint64_t id = 0;
  bool active = false;
  std::string cause;
  std::string reason;
  std::vector<std::string> choices;
};

// One line of the panel.
struct Row
{
  std::string robot;
  std::string task;
  std::string state;
  bool silent = false;         // nothing was heard for a second: what is shown is old
  bool server_connected = false;
  bool stopped = false;        // the emergency stop is latched
  bool waits = false;          // for a person
  std::uint64_t alert_id = 0;
  std::string reason;          // why it waits
  std::vector<std::string> choices;
  bool asking = false;         // a decision is under way
  std::string outcome;         // of the last decision
};

enum class Refusal { kNone, kUnknownRobot, kSilent, kNothingToDecide, kUnknownChoice, kNoName, kNoReason, kAsking };

// What to send to the robot's service, or why nothing is sent.
struct Decision
{
  Refusal refusal = Refusal::kNone;
  std::string robot;
  std::uint64_t alert_id = 0;
  std::string choice;
  std::string decided_by;
  std::string why;
  bool release = false;        // of the emergency stop, which is another service
};

constexpr const char * kRelease = "release_emergency_stop";

const char * words(Refusal refusal);

class PanelModel
{
public:
  // `robot` is the namespace, without slashes.
  void on_status(const std::string & robot, const std::string & task, const std::string & state, bool server_connected, double now_s);
  void on_arm(const std::string & robot, bool stopped, double now_s);
  // An alert that ends has the number of the one that it ends; a late end of an older one changes nothing.
  void on_alert(const std::string & robot, const Alert & alert, double now_s);

  // A button was pressed. Where the refusal is kNone the robot counts as asked until `answered` or kAnswerWithinS.
  Decision decide(
    const std::string & robot, std::uint64_t alert_id, const std::string & choice, const std::string & who, const std::string & why,
    double now_s);
  void answered(const std::string & robot, bool accepted, const std::string & reason, double now_s);

  // Those that wait for a person first, then those that are stopped or silent, then the others, by name.
  std::vector<Row> rows(double now_s) const;

private:
  struct Robot
  {
    std::string task, state, outcome;
    bool server_connected = false, stopped = false;
    double heard_s = 0.0;
    std::optional<Alert> alert;
    std::optional<double> asked_s;
  };

  Robot * of(const std::string & robot);
  static bool silent(const Robot & robot, double now_s);
  static bool asking(const Robot & robot, double now_s);

  std::map<std::string, Robot> robots_;
};

}  // namespace rosa_rviz
