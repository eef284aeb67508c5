// Package vmm is the contract between spaced-host and the virtual machine monitors that run sandboxes.
//
// # Vocabulary
//
// A driver (qemu, firecracker, fake) starts machines. A machine is one VMM process with one guest. It runs in an enclosure: network
// namespace, cgroup, uid and root directory, made by whoever calls the driver; a driver is handed an enclosure and never makes one. A
// snapshot is a set of files from which any number of machines can be loaded: device state, memory and disk, which belong
// together. A handle is what must be written down to find a machine again after the daemon has died: its process outlives the daemon.
//
// # The life of a machine
//
//	Boot ─┐                    ┌─ Pause ──► paused ─┬─ Save (any number of times)
//	Load ─┴─► running ◄────────┴───────── Resume ◄──┘
//	any ──► Kill, or the process dies ──► done
//
// Boot starts a kernel. Load starts from a snapshot, and the machine runs when it returns; the guest's clock and generator are
// stale until the link's handshake has set them, which is the caller's work (DialGuest, then api/link). Recover finds a machine that
// another life of the daemon started.
//
// # What repeated calls do
//
// Pause of a paused machine, Resume of a running one and Kill of a dead one succeed and change nothing. Save needs a paused machine
// and leaves it paused; what it then leaves to its Finish needs the machine no more. Every call on a machine whose process is gone returns ErrGone. Boot and Load that fail leave no process behind,
// and wrap ErrGone if it ended by itself; what the caller put into the enclosure stays the caller's to remove.
//
// # What a caller may assume
//
// Every call obeys its context's deadline. DialGuest gives one connection at a time: a new one ends the one before. The connection is
// verified: its peer is the machine's VMM process, by uid, pid and start time. Soon after a Load it may end before the guest has answered, with those
// that the guest had when it was saved: dial again. Done is closed within a second of the process's death,
// however it died. Nothing the guest does can make a call exceed its deadline or return more than the named limits.
package vmm

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/seal"
)

// ErrGone is returned by calls on a machine whose process has ended.
var ErrGone = errors.New("the virtual machine's process is gone")

// ErrPages is wrapped by Machine.Err, and by a Load that fails for it: the machine's memory was to come page by page, and one couldn't be had, or who
// brings them is gone. The machine was ended: it would have waited for ever.
var ErrPages = errors.New("the machine's memory pages can't be had")

// ErrIncompatible is wrapped when a snapshot can't be loaded here: other VMM version, machine, CPU, shape or TSC. Nothing was started.
var ErrIncompatible = errors.New("the snapshot doesn't fit this host")

// Driver starts machines of one VMM.
type Driver interface {
	// Name is the driver's word in manifests and in the API: qemu, firecracker, fake.
	Name() string
	// Capabilities says what the driver can do and how fast it is; it never changes during a process's life.
	Capabilities() Capabilities
	// Boot starts a machine with a kernel. The guest isn't up yet when it returns.
	Boot(ctx context.Context, e Enclosure, m Boot) (Machine, error)
	// Load starts a machine from a snapshot's files and returns when it runs.
	Load(ctx context.Context, e Enclosure, m Load) (Machine, error)
	// Recover re-attaches to the machine of a handle. ErrGone if its process isn't there any more (pid, start time and uid are compared).
	Recover(ctx context.Context, e Enclosure, h Handle) (Machine, error)
}

// Capabilities tells a caller what to expect from a driver.
type Capabilities struct {
	Acceleration   string  // kvm, tcg, none
	TenantBoundary bool    // whether the driver may separate tenants; software emulation may not
	CPUFactor      float64 // how much slower guest code runs than on the host, about; 1 with hardware virtualisation
	PauseKeepsLink bool    // a connection to the guest goes on after Pause and Resume; else it ends, and DialGuest makes the next
	PowerOff       bool    // a guest that switches itself off ends its machine; else it only does when it restarts or panics
	SharedMemory   bool    // Load maps one memory file for all machines, which any uid must be able to read; else each needs a file of its own
	SealedMemory   bool    // Load also takes one sealed memfd for all machines (Load.Sealed)
	PagedMemory    bool    // Load also brings the memory page by page, by a process of its own (Load.Pages)
	Version        string  // of the VMM, as it stands in manifests
	OverheadBytes  int64   // that a machine may take of the host's memory beside its guest's, at most: the VMM's own, and what it makes of the guest's code
}

// Shape is the size of a machine. It's fixed in a snapshot.
type Shape struct {
	VCPUs       int
	MemoryBytes int64
}

// Boot is what a cold start needs. Paths are the host's; the driver puts the files into the enclosure.
type Boot struct {
	Shape  Shape
	Kernel string // uncompressed, with a PVH entry
	Initrd string
	Args   []string // more kernel arguments, after the driver's own
	Disk   string   // raw image, owned by the enclosure's uid; "" for none
	// Memory is a file for the guest's memory, made by the caller with the right size and owner; it becomes a snapshot's memory. "" for a
	// machine that is to run and not to become a snapshot's source: its memory is in no file system, and ends with its process.
	Memory string
}

// Load is what a start from a snapshot needs.
type Load struct {
	Shape    Shape
	State    string   // device state, read only
	Memory   string   // the snapshot's memory, or the machine's own clone of it (see Capabilities.SharedMemory)
	Sealed   *os.File // instead of Memory, if Capabilities.SealedMemory: a memfd with the snapshot's memory that nobody can change
	Pages    *Pages   // if Capabilities.PagedMemory: how Memory comes page by page; nil: it's mapped
	Disk     string   // the machine's own clone of the snapshot's disk; "" for none
	Manifest Manifest
}

// Pages says that a machine's memory comes page by page when the guest asks for it, from the file that is Load.Memory. A process beside the VMM
// brings it, which lives as long.
type Pages struct {
	// WorkingSet is the path of a file beside the snapshot. If it's there, the pages that it names come before they're asked for; if it isn't, or isn't
	// whole, or another snapshot's, it's made of what this machine asks for first. "" for none.
	WorkingSet string
	Snapshot   string // names the snapshot, in the working set
}

// Manifest is the part of a snapshot's manifest that a driver writes at Save and compares before a Load.
type Manifest struct {
	Driver      string   `json:"driver"`
	Version     string   `json:"version"`
	Machine     string   `json:"machine"` // machine type and its flags
	CPU         string   `json:"cpu"`
	Devices     []string `json:"devices"` // in the order that decides their slots
	VCPUs       int      `json:"vcpus"`
	MemoryBytes int64    `json:"memory_bytes"`
	TSCKHz      int64    `json:"tsc_khz"`
}

// Machine is one VMM process. Its methods may be called from any goroutine.
type Machine interface {
	Handle() Handle
	// DialGuest connects to the guest's link port. One connection at a time.
	DialGuest(ctx context.Context) (net.Conn, error)
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Save writes device state and memory to files. The machine must be paused. When Save returns it may go on, or end. The memory file is whole when Finish
	// has returned. Neither file is synced.
	Save(ctx context.Context, s Save) (Manifest, Finish, error)
	// Kill ends the process and returns when it's gone.
	Kill(ctx context.Context) error
	// Done is closed when the process is gone.
	Done() <-chan struct{}
	// Err is why the machine was ended if the driver had to end it, once Done is closed: ErrPages. nil otherwise.
	Err() error
	// LastWords is what there is to say of a machine that didn't come up, for the operator's log: what the VMM printed last, how it ended if it has,
	// and what the guest's kernel said as far as the driver can tell. It's bounded, may be "", and has whatever the guest wrote there.
	LastWords() string
	// Close lets go of the machine without ending it: the daemon is stopping.
	Close() error
}

// Save is where a machine is saved to.
type Save struct {
	State *os.File
	// Memory may be nil if the machine was booted with a file for its memory, which has it already. A loaded machine's must come as a copy of what it was loaded
	// from, or of an earlier save of it: a reflink costs nothing. A booted one's may come empty, or as a copy of an earlier save of it.
	Memory *os.File
	// Name is this save's, for later ones; an earlier one of the same name, of which nothing came, is forgotten.
	Name string
	// Earlier names the earlier Save of this machine, with its Finish, of which Memory is a copy: whichever, in whatever life of the daemon; "" for none. Then only
	// pages that differ from what is in it are written, as far as the driver can tell, so that those that don't go on sharing their blocks. To tell costs
	// reading them, in Finish if possible, unless the driver has kept account of what has changed since that save.
	Earlier string
}

// Finish writes into a Save's memory file what was only read while the machine stood still: a file system takes ten times as long to take pages as
// memory does, and the guest would wait for it. It's never nil when Save succeeds, and is called once before the file is closed: what is held is
// freed, also when ctx has ended and nothing is written. It returns parts of the file outside of which nothing was written, and which are all
// that isn't as in what the machine was loaded from, so that whoever reads them can begin before a file system tells which they are, with the digest of what is in them, if the
// driver had them in its hands; none if it doesn't know.
type Finish func(ctx context.Context) (seal.Content, error)

// Finished is the Finish of a Save that has left nothing to do.
func Finished(context.Context) (seal.Content, error) { return seal.Content{}, nil }

// Handle finds a machine again. It's written to disk as JSON before the machine is used.
type Handle struct {
	Driver    string            `json:"driver"`
	PID       int               `json:"pid"`
	StartTime uint64            `json:"start_time"` // clock ticks since boot, field 22 of /proc/PID/stat
	BootID    string            `json:"boot_id"`    // of the host: a pid of another boot is nobody
	UID       int               `json:"uid"`
	Details   map[string]string `json:"details,omitempty"` // the driver's own: socket paths and the like
}

// Enclosure is what a VMM runs in. Its maker (internal/host/jail on one machine, a Pod later) removes it after the machine is gone.
type Enclosure struct {
	ID      string  // names the machine in logs: an execution id, or a template's
	UID     int     // the VMM's uid and gid, used by no process outside
	NetNS   string  // path of its network namespace
	Tap     string  // name of the tap device in it; "" for none
	MAC     string  // the guest's address on the tap, the same in every clone of a snapshot
	Dir     string  // a directory for sockets and handles, writable by root only
	Starter Starter // runs a program inside
}

// Starter runs a program inside an enclosure: with its uid, namespaces, cgroup and root directory, without capabilities and with
// no_new_privs. It's the only way in which a driver starts a process.
type Starter interface {
	Start(ctx context.Context, c Command) (Process, error)
	// Lend puts open files into the root directory of a program that was started, over places that its Command named, for as long as it
	// takes: until giveBack is called, or the program ends.
	Lend(ctx context.Context, h Handle, files map[string]*os.File) (giveBack func() error, err error)
	// TakeBack takes away what lies over places of a program, which another life of the daemon has lent and not taken back. There may be nothing.
	TakeBack(ctx context.Context, h Handle, places []string) error
}

// Command is a program to run in an enclosure.
type Command struct {
	Path  string            // inside the root directory, whose /usr is the host's, read only
	Args  []string          // without the program's name
	Files []*os.File        // become descriptors 3, 4, …
	Bind  map[string]Source // files to put into the root directory, by their absolute path in there
	Log   *os.File          // stdout and stderr; nil discards them
	Proc  bool              // whether it opens descriptors by their paths: it gets a /proc that shows nothing but itself
	// Places are paths in the root directory over which files can be lent later (see Starter). Until then they are empty files.
	Places []string
	// FileBytes is how far the program may write into a file that it opens or is lent, unless one that is bound is larger. 0: 256 MiB.
	FileBytes int64
	// Jailer says that the program isn't the VMM but the VMM's own jailer, which makes the VMM's root directory somewhere below this one, makes
	// that its root, gives up its rights, and executes the VMM. It starts as root, with no capability but those that this takes, as the first
	// process of a pid namespace of its own, and has the directory to itself: a small file system in memory. The process that is left has the
	// enclosure's uid, and its root directory is the VMM's: paths in a Lend are seen from there.
	Jailer string
}

// Source is a host file that is bound into a root directory.
type Source struct {
	Path       string
	Writable   bool
	Executable bool
}

// Process is a started VMM. Whether it's a child or found again makes no difference to its user.
type Process struct {
	PID       int
	StartTime uint64
	PIDFD     *os.File // becomes readable when the process has ended
	// Exit gets how the process has ended, once; nil if its starter doesn't know.
	Exit <-chan unix.WaitStatus
}

// KillGrace is how long Kill waits for a killed process to be gone before it gives up: a process in an uninterruptible wait.
const KillGrace = 10 * time.Second
