package systemd

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

// Names of an instance's units.
func target(i instance.Instance) string { return fmt.Sprintf("space@%s.target", i.Name) }
func service(i instance.Instance, n string) string {
	return fmt.Sprintf("space-%s@%s.service", n, i.Name)
}
func timer(i instance.Instance, n string) string { return fmt.Sprintf("space-%s@%s.timer", n, i.Name) }

// The services beside the roles.
const (
	setupName = "setup" // makes what a reboot took from /run
	logsName  = "logs"  // keeps the logs small
)

// restartPause is how long systemd waits before it starts a role again, in seconds. It never gives up: a database that is away for an hour
// mustn't leave a platform without a control plane.
const restartPause = 1

// rotatePause is the time between two looks at the sizes of logs, in seconds.
const rotatePause = 60

// Units returns the files of an instance's units by name. All programs, of which there is one at least, start from one binary.
func Units(i instance.Instance, programs []supervise.Program) map[string]string {
	self := programs[0].Path
	out := map[string]string{
		service(i, setupName): setupUnit(i, self),
		service(i, logsName):  logsUnit(i, self),
		timer(i, logsName):    logsTimer(i),
	}
	wants := []string{service(i, setupName), timer(i, logsName)}
	before := []string{service(i, setupName)}
	for _, p := range programs {
		name := service(i, p.Name)
		out[name] = roleUnit(i, p, before)
		before, wants = append(before, name), append(wants, name)
	}
	out[target(i)] = targetUnit(i, wants)
	return out
}

// section is one section of a unit: lines of key and value.
type section struct {
	name  string
	lines []string
}

func file(sections ...section) string {
	out := []string{"# Written by 'space setup --systemd', which writes it anew; changes belong into a drop-in ('systemctl edit')."}
	for _, s := range sections {
		out = append(out, "", "["+s.name+"]")
		out = append(out, s.lines...)
	}
	return strings.Join(out, "\n") + "\n"
}

func targetUnit(i instance.Instance, wants []string) string {
	return file(
		section{"Unit", []string{"Description=SPACE platform " + i.Name, "Wants=" + strings.Join(wants, " ")}},
		section{"Install", []string{"WantedBy=multi-user.target"}})
}

func setupUnit(i instance.Instance, self string) string {
	return file(
		section{"Unit", []string{
			"Description=SPACE platform " + i.Name + ": users and directories",
			"PartOf=" + target(i),
			"RequiresMountsFor=" + i.DataDir() + " " + i.LogDir(),
		}},
		section{"Service", []string{"Type=oneshot", "RemainAfterExit=yes", command("ExecStart=", self, setupName, "--no-install", "--instance", i.Name)}})
}

func logsUnit(i instance.Instance, self string) string {
	return file(
		section{"Unit", []string{"Description=SPACE platform " + i.Name + ": keep the logs small"}},
		section{"Service", slices.Concat(
			[]string{"Type=oneshot", command("ExecStart=", self, "rotate-logs", "--instance", i.Name)},
			confined(i.LogDir()),
			[]string{"PrivateNetwork=yes"})})
}

func logsTimer(i instance.Instance) string {
	return file(
		section{"Unit", []string{"Description=SPACE platform " + i.Name + ": keep the logs small", "PartOf=" + target(i)}},
		section{"Timer", []string{fmt.Sprintf("OnActiveSec=%d", rotatePause), fmt.Sprintf("OnUnitActiveSec=%d", rotatePause)}})
}

// roleUnit starts after those before it, but needs none of them: each role waits for its peers and outlives their restarts.
func roleUnit(i instance.Instance, p supervise.Program, before []string) string {
	return file(
		section{"Unit", []string{
			fmt.Sprintf("Description=SPACE platform %s: %s", i.Name, p.Name),
			"PartOf=" + target(i),
			"Requires=" + service(i, setupName),
			"After=" + strings.Join(before, " "),
			"StartLimitIntervalSec=0",
		}},
		section{"Service", slices.Concat(process(i, p), end(p), rights(i, p))},
		section{"Install", []string{"WantedBy=" + target(i)}})
}

// process says what runs, and how.
func process(i instance.Instance, p supervise.Program) []string {
	out := []string{
		"Type=exec",
		command("ExecStart=", append([]string{p.Path}, p.Args...)...),
		// Whoever asks what runs reads the pid files, which a supervisor writes otherwise.
		command("ExecStartPost=+", p.Path, "pid-file", p.Name, "--pid", "$MAINPID", "--instance", i.Name),
		"WorkingDirectory=/",
		"StandardOutput=append:" + supervise.LogFile(i.LogDir(), p.Name),
		"StandardError=inherit",
		"UMask=0022",
	}
	for _, e := range p.Env {
		if !private(e) {
			out = append(out, "Environment="+quote(strings.ReplaceAll(e, "%", "%%")))
		}
	}
	if slices.ContainsFunc(p.Env, private) {
		out = append(out, "EnvironmentFile="+environmentFile(i, p))
	}
	return out
}

// end says how the role ends, and what follows.
func end(p supervise.Program) []string {
	kill := "KillMode=mixed" // a role's helpers end with it
	if p.UID == 0 {
		kill = "KillMode=process" // spaced-host's machines outlive it
	}
	return []string{
		"Restart=always", fmt.Sprintf("RestartSec=%d", restartPause),
		kill, "KillSignal=" + unix.SignalName(p.Stop), fmt.Sprintf("TimeoutStopSec=%d", int(p.Grace.Seconds())),
	}
}

// rights says who the role is and what it can't do.
func rights(i instance.Instance, p supervise.Program) []string {
	if p.UID == 0 {
		return hostRights
	}
	role := instance.Role(p.Name)
	out := []string{"User=" + i.User(role), "Group=" + i.User(role), "SupplementaryGroups=" + i.Group()}
	out = append(out, confined(i.RoleDir(role), i.RoleRunDir(role))...)
	out = append(out, "CapabilityBoundingSet=", "ProtectProc=invisible")
	if role != instance.Postgres { // it may compile queries
		out = append(out, "MemoryDenyWriteExecute=yes")
	}
	return out
}

// confined is what holds for all that isn't spaced-host: it writes nowhere but in the named directories, and reaches neither devices nor what the
// kernel lets root change. No PrivateUsers: peers know each other by their uids.
func confined(writes ...string) []string {
	return []string{
		"ProtectSystem=strict", "ReadWritePaths=" + strings.Join(writes, " "),
		"ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes",
		"ProtectKernelTunables=yes", "ProtectKernelModules=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes", "ProtectClock=yes", "ProtectHostname=yes",
		"NoNewPrivileges=yes", "RestrictNamespaces=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes", "LockPersonality=yes",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
		"SystemCallArchitectures=native", "SystemCallFilter=@system-service",
	}
}

// hostRights is for spaced-host, which is root because it makes machines. Nothing here may give it a mount namespace of its own (ProtectSystem,
// PrivateTmp and the like do): the volume is mounted in it, and its next life must find it mounted, or it mounts the same file system twice.
var hostRights = []string{
	"TasksMax=infinity", "OOMPolicy=continue",
	"LockPersonality=yes", "RestrictRealtime=yes", "SystemCallArchitectures=native",
	"CapabilityBoundingSet=~CAP_SYS_BOOT CAP_SYS_TIME CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_SYS_PACCT CAP_SYS_TTY_CONFIG CAP_SYSLOG CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_MAC_ADMIN CAP_MAC_OVERRIDE",
}

// public are the variables that a unit shows to every user of the machine.
var public = []string{"PATH", "LC_ALL", "TZ"}

// private tells whether a variable is nobody else's to read: a proxy's address may have a password.
func private(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return !slices.Contains(public, name)
}

// environmentFile is where a role's private variables are.
func environmentFile(i instance.Instance, p supervise.Program) string {
	return filepath.Join(i.RoleDir(instance.Role(p.Name)), "environment")
}

// environment is that file's content; "" if there are none.
func environment(p supervise.Program) string {
	var out strings.Builder
	for _, e := range p.Env {
		if name, value, _ := strings.Cut(e, "="); private(e) {
			fmt.Fprintf(&out, "%s=%s\n", name, quote(value))
		}
	}
	return out.String()
}

// command is a line that starts a program, whose words are ours and need no quotes.
func command(key string, words ...string) string { return key + strings.Join(words, " ") }

// quote writes a value so that systemd reads it back as it is, in a unit and in an environment file.
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}
