// Package instance names everything that one platform owns on a machine, so that several run side by side: uids, sockets, ports,
// directories, namespaces and cgroups all carry the instance's name or come from its slot. It's pure: it makes none of them.
package instance

import (
	"fmt"
	"path/filepath"
	"regexp"
)

// DefaultName is the instance that commands use when none is named.
const DefaultName = "default"

// MaxSlots bounds the instances on one machine; the port and uid ranges are cut for it.
const MaxSlots = 100

// TestSlots is how many of them, the last ones, are kept for tests of single packages and never claimed; see instancetest.
const TestSlots = 20

const (
	firstPort    = 7700 // the first instance's API; each instance has portsPerSlot of them
	portsPerSlot = 10
	firstUID     = 300_000 // above what distributions hand out, below their sub-uid ranges for the first users' blocks
	uidsPerSlot  = 10_000
	vmUIDOffset  = 1_000 // role users lie below it, VMs above
)

// maxName keeps "space-NAME-sbx-manager" within the 32 characters of a user name.
var nameRE = regexp.MustCompile(`^[a-z][a-z0-9]{0,13}$`)

// Instance is one platform on a machine. Slot tells its ports and uids; see Claim.
type Instance struct {
	Name string
	Slot int
}

// CheckName refuses a name that can't be part of a user name, a namespace and a path.
func CheckName(name string) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("instance %q: a name is a letter and up to 13 more of a-z, 0-9", name)
	}
	return nil
}

// Role is one process of the platform.
type Role string

// The roles, in the order in which they start.
const (
	Postgres   Role = "postgres"
	API        Role = "api"         // control plane
	Edge       Role = "edge"        // data plane for clients
	Host       Role = "spaced-host" // root: machines, disks, namespaces
	Manager    Role = "sbx-manager" // runtime records, admission
	NodeAPI    Role = "node-api"    // the node's door
	E2B        Role = "e2b"         // what E2B's SDKs talk to: a client of the API and the edge
	Supervisor Role = "supervisor"  // restarts the others
)

// Roles returns the roles that the supervisor keeps, in the order in which they start.
func Roles() []Role { return []Role{Postgres, API, Edge, Host, Manager, NodeAPI, E2B} }

// Users returns the roles that have a system user of their own. The others run as root.
func Users() []Role { return []Role{Postgres, API, Edge, Manager, NodeAPI, E2B} }

// Root is where all instances keep their durable data.
const Root = "/var/lib/space"

// DataDir holds what survives a reboot.
func (i Instance) DataDir() string { return filepath.Join(Root, i.Name) }

// BinDir holds the binaries that the roles run, space and spaced-guest: copies, so that every role's user reaches them and a rebuild
// changes nothing under a running platform.
func (i Instance) BinDir() string { return filepath.Join(i.DataDir(), "bin") }

// BuildFile has in it the directory from which the binaries were copied last.
func (i Instance) BuildFile() string { return filepath.Join(i.BinDir(), "build") }

// RoleDir is a role's part of the data directory, readable by that role only.
func (i Instance) RoleDir(r Role) string { return filepath.Join(i.DataDir(), string(r)) }

// RunDir holds sockets and pid files; it's gone after a reboot.
func (i Instance) RunDir() string { return filepath.Join("/run/space", i.Name) }

// RoleRunDir holds a role's sockets. Its group is the instance's, so that the other roles reach them and nobody else does.
func (i Instance) RoleRunDir(r Role) string { return filepath.Join(i.RunDir(), string(r)) }

// EnclosuresDir holds a directory for each machine, with its sockets and its root.
func (i Instance) EnclosuresDir() string { return filepath.Join(i.RoleRunDir(Host), "vm") }

// Socket is the one unix socket on which a role serves the other roles.
func (i Instance) Socket(r Role) string { return filepath.Join(i.RoleRunDir(r), "rpc.sock") }

// LogDir holds a file per role.
func (i Instance) LogDir() string { return filepath.Join("/var/log/space", i.Name) }

// ConfigFile configures the platform; see Config.
func (i Instance) ConfigFile() string { return filepath.Join(i.DataDir(), "config.toml") }

// DatabaseFile names an existing PostgreSQL, with the password: only root and the control plane can read it. Without it the platform has
// a private one.
func (i Instance) DatabaseFile() string { return filepath.Join(i.DataDir(), "database.toml") }

// VolumeImage is the file that holds the btrfs file system, allocated whole.
func (i Instance) VolumeImage() string { return filepath.Join(i.RoleDir(Host), "volume.img") }

// Volume is where the btrfs file system is mounted: templates, and the disks of sandboxes.
func (i Instance) Volume() string { return filepath.Join(i.RoleDir(Host), "volume") }

// KernelDir holds the guest kernel and the initramfs.
func (i Instance) KernelDir() string { return filepath.Join(i.RoleDir(Host), "kernel") }

// Prefix begins the name of each network namespace and user of the instance: space-NAME-.
func (i Instance) Prefix() string { return "space-" + i.Name + "-" }

// Group is the system group of all roles, whose id is Gid.
func (i Instance) Group() string { return "space-" + i.Name }

// User is the system user of a role.
func (i Instance) User(r Role) string { return i.Prefix() + string(r) }

// Cgroup is the path of the instance's cgroup below each controller's root (v1) or the one root (v2).
func (i Instance) Cgroup() string { return filepath.Join("space", i.Name) }

// FirecrackerDir is where 'space setup firecracker' installs releases, each in a directory of its version, for all instances of the machine.
// FirecrackerCurrent is a link to the one that was installed last.
const (
	FirecrackerDir     = "/usr/local/lib/space/firecracker"
	FirecrackerCurrent = FirecrackerDir + "/current"
)

// NetNSDir is where network namespaces are bound, as ip-netns does it.
const NetNSDir = "/run/netns"

// Node is the name of the instance's one node, in routes and in the API.
func (i Instance) Node() string { return i.Name }

// APIPort is the management API's port on loopback.
func (i Instance) APIPort() int { return firstPort + i.Slot*portsPerSlot }

// EdgePort is the data plane's port on loopback.
func (i Instance) EdgePort() int { return i.APIPort() + 1 }

// E2BAPIPort and E2BSandboxPort are the ports on loopback for E2B's SDKs: of the control API, and of what they do inside sandboxes.
func (i Instance) E2BAPIPort() int { return i.APIPort() + 7 }

// E2BSandboxPort is the second of them.
func (i Instance) E2BSandboxPort() int { return i.APIPort() + 8 }

// opsPorts are the ports on which roles answer an operator's programs, counted from the API's. A role without one says nothing.
var opsPorts = map[Role]int{API: 2, Edge: 3, Host: 4, Manager: 5, NodeAPI: 6, E2B: 9}

// OpsPort is the port on loopback on which a role serves its metrics and says whether it's ready.
func (i Instance) OpsPort(r Role) (port int, ok bool) {
	n, ok := opsPorts[r]
	return i.APIPort() + n, ok
}

// GID is the id of the instance's group.
func (i Instance) GID() int { return firstUID + i.Slot*uidsPerSlot }

// UID is the uid of a role's user, which is its primary gid as well; 0 for roles that run as root.
func (i Instance) UID(r Role) int {
	for n, u := range Users() {
		if u == r {
			return i.GID() + 1 + n
		}
	}
	return 0
}

// VMUIDs is the range of uids for VMMs, first to last.
func (i Instance) VMUIDs() (first, last int) {
	return i.GID() + vmUIDOffset, i.GID() + uidsPerSlot - 1
}
