package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/BurntSushi/toml"
)

// Config is the platform's configuration file, config.toml in the data directory. Every field has a usable zero value; unknown keys are refused.
type Config struct {
	// Driver forces a VMM driver: "firecracker", "qemu". Empty: firecracker if it's there and a guest boots with it, else qemu.
	Driver string `toml:"driver"`
	// Firecracker and Jailer are the paths of the two programs of one release of Firecracker. Empty: those that 'space setup firecracker' has
	// installed.
	Firecracker string `toml:"firecracker"`
	Jailer      string `toml:"jailer"`
	// CPUTemplate is the path of a custom CPU template of Firecracker: which of the processor's features guests see, so that snapshots fit other
	// models of processors, too. Empty: all that Firecracker passes on.
	CPUTemplate string `toml:"cpu_template"`
	// NetworkReceiveBytes and NetworkSendBytes are how many bytes a machine may receive, and send, in a second, with bursts of a tenth of that. 0: no
	// limit, else at least MinNetworkBytes. Only the firecracker driver keeps them.
	NetworkReceiveBytes int64 `toml:"network_receive_bytes"`
	NetworkSendBytes    int64 `toml:"network_send_bytes"`
	// Acceleration forces "kvm" or "tcg" for the qemu driver. Empty: kvm if a guest boots with it.
	Acceleration string `toml:"acceleration"`
	// Kernel forces which kernels guests boot: "tuned" for those that 'make kernel' built, "cloud" for Debian's. Empty: tuned if there are any.
	Kernel string `toml:"kernel"`
	// RestoredMemory is how the memory of a machine that is loaded from a snapshot comes: MemoryMapped or MemoryPaged. Empty: MemoryMapped.
	RestoredMemory string `toml:"restored_memory"`
	// VolumeGiB is the size of the btrfs image, allocated whole when it's made. 0: DefaultVolumeGiB.
	VolumeGiB int `toml:"volume_gib"`
	// PoolSize is how many machines of each template and shape wait, restored and warm, for the next sandboxes: a number up to MaxPoolSize, or
	// "auto" for as many as recent demand says. Empty: auto.
	PoolSize PoolSize `toml:"pool_size"`
	// PoolMemoryMiB is how much memory they may take together with "auto". 0: a tenth of the node's.
	PoolMemoryMiB int `toml:"pool_memory_mib"`
	// MemoryOvercommit is how many times the memory that the node has for sandboxes is promised, 1 to MaxMemoryOvercommit. 0: once, and no sandbox touches a page that the
	// host doesn't have. With more, sandboxes that use all that they were promised may bring the host to swap, or to end one of them.
	MemoryOvercommit int `toml:"memory_overcommit"`
	// InsecureRegistries are registries of OCI images that needn't speak TLS, as HOST or HOST:PORT, wherever they are.
	InsecureRegistries []string `toml:"insecure_registries"`
	// AllowedRegistries are registries of OCI images at addresses that aren't on the public internet, loopback and the node's own included: as
	// HOST, HOST:PORT, or a network of such addresses, for example "10.0.0.0/8". What link-local and metadata addresses have is never asked.
	AllowedRegistries []string `toml:"allowed_registries"`
	// PublicURL and EdgeURL are how clients reach the API and the edge. Empty: loopback with the instance's ports.
	PublicURL string `toml:"public_url"`
	EdgeURL   string `toml:"edge_url"`
	// E2BURL and E2BSandboxURL are how E2B's SDKs reach the two ports that are theirs. Empty: loopback with the instance's ports.
	E2BURL        string `toml:"e2b_url"`
	E2BSandboxURL string `toml:"e2b_sandbox_url"`
	// OTLPEndpoint is where every role sends its traces: the base URL of a collector that speaks OTLP/HTTP. Empty: there are no traces.
	OTLPEndpoint string `toml:"otlp_endpoint"`
	// EdgeOrigins are the origins of web pages whose scripts may use the data plane, for example "https://app.example"; "*" for any. Empty: none.
	EdgeOrigins []string `toml:"edge_origins"`
	// DatabaseURL is an existing PostgreSQL to use instead of a private one. It's a secret, and the other roles read config.toml: so it's
	// the key database_url of a file of its own, DatabaseFile. Empty: the private one, or a reader who may not know.
	DatabaseURL string `toml:"-"`
}

// What RestoredMemory may be: the snapshot's file is mapped, which the kernel reads as it's needed; or a process beside the machine brings it page by
// page, which not every driver can have (vmm.Capabilities).
const (
	MemoryMapped = "mapped"
	MemoryPaged  = "paged"
)

// checkMemory refuses a way that there isn't.
func (c Config) checkMemory() error {
	if c.RestoredMemory != MemoryMapped && c.RestoredMemory != MemoryPaged {
		return fmt.Errorf("configuration: restored_memory is %q, want %q or %q", c.RestoredMemory, MemoryMapped, MemoryPaged)
	}
	return nil
}

// MaxMemoryOvercommit is the largest MemoryOvercommit.
const MaxMemoryOvercommit = 16

// checkOvercommit refuses a factor that is none.
func (c Config) checkOvercommit() error {
	if n := c.MemoryOvercommit; n < 0 || n > MaxMemoryOvercommit {
		return fmt.Errorf("configuration: memory_overcommit is %d, want 1 to %d", n, MaxMemoryOvercommit)
	}
	return nil
}

// PoolSize is a number, or PoolAuto. A file may have the number with quotation marks or without.
type PoolSize string

// PoolAuto is the PoolSize that follows demand.
const PoolAuto PoolSize = "auto"

// UnmarshalTOML implements toml.Unmarshaler. What is no size is refused later, with all else that makes no sense.
func (p *PoolSize) UnmarshalTOML(value any) error {
	*p = PoolSize(fmt.Sprint(value))
	return nil
}

// MaxPoolSize is the largest PoolSize. Each machine that waits takes some 40 MiB.
const MaxPoolSize = 64

// checkPool refuses a pool that isn't one.
func (c Config) checkPool() error {
	if n, err := strconv.Atoi(string(c.PoolSize)); c.PoolSize != PoolAuto && (err != nil || n < 0 || n > MaxPoolSize) {
		return fmt.Errorf("configuration: pool_size is %q, want %q or a number from 0 to %d", c.PoolSize, PoolAuto, MaxPoolSize)
	}
	if c.PoolMemoryMiB < 0 {
		return fmt.Errorf("configuration: pool_memory_mib is %d, want 0 or more", c.PoolMemoryMiB)
	}
	return nil
}

// MinNetworkBytes is the least limit of a network: its burst lets some packets pass.
const MinNetworkBytes = 100_000

// checkNetwork refuses limits with which nothing would pass.
func (c Config) checkNetwork() error {
	for key, n := range map[string]int64{"network_receive_bytes": c.NetworkReceiveBytes, "network_send_bytes": c.NetworkSendBytes} {
		if n != 0 && n < MinNetworkBytes {
			return fmt.Errorf("configuration: %s is %d, want 0 for no limit or at least %d in a second", key, n, MinNetworkBytes)
		}
	}
	return nil
}

// checkFirecracker refuses one program without the other, and paths that depend on who reads them.
func (c Config) checkFirecracker() error {
	if (c.Firecracker == "") != (c.Jailer == "") {
		return errors.New("configuration: firecracker and jailer belong together: want the paths of the two programs of one release, or neither")
	}
	for key, path := range map[string]string{"firecracker": c.Firecracker, "jailer": c.Jailer, "cpu_template": c.CPUTemplate} {
		if path != "" && !filepath.IsAbs(path) {
			return fmt.Errorf("configuration: %s is %q, want an absolute path", key, path)
		}
	}
	return nil
}

// FirecrackerOnly are the keys that are set and that no driver but firecracker obeys.
func (c Config) FirecrackerOnly() (keys []string) {
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"cpu_template", c.CPUTemplate != ""}, {"network_receive_bytes", c.NetworkReceiveBytes != 0}, {"network_send_bytes", c.NetworkSendBytes != 0},
		{"restored_memory", c.RestoredMemory == MemoryPaged},
	} {
		if k.set {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// DefaultVolumeGiB is the size of the btrfs image when the configuration doesn't say.
const DefaultVolumeGiB = 12

// LoadConfig reads an instance's configuration; a missing file is an empty one.
func LoadConfig(i Instance) (Config, error) {
	var c Config
	if err := decode(i.ConfigFile(), &c); err != nil {
		return Config{}, err
	}
	var secret databaseFile
	if err := decode(i.DatabaseFile(), &secret); err != nil && !errors.Is(err, fs.ErrPermission) {
		return Config{}, err
	}
	c.DatabaseURL = secret.URL
	c = c.withDefaults(i)
	return c, errors.Join(c.checkPool(), c.checkNetwork(), c.checkMemory(), c.checkOvercommit(), c.checkFirecracker())
}

func decode(path string, into any) error {
	meta, err := toml.DecodeFile(path, into)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if syntax := new(toml.ParseError); errors.As(err, syntax) {
		return fmt.Errorf("read configuration %s: line %d is not TOML", path, syntax.Position.Line) // not the line: it may hold a secret
	}
	if err != nil {
		return fmt.Errorf("read configuration %s: %w", path, err)
	}
	keys := meta.Undecoded()
	switch {
	case len(keys) == 0:
		return nil
	case keys[0].String() == "database_url":
		return fmt.Errorf("read configuration %s: database_url is a secret and this file is not: say it with 'space up --database-url'", path)
	default:
		return fmt.Errorf("read configuration %s: unknown key %q", path, keys[0].String())
	}
}

func (c Config) withDefaults(i Instance) Config {
	if c.PoolSize == "" {
		c.PoolSize = PoolAuto
	}
	if c.RestoredMemory == "" {
		c.RestoredMemory = MemoryMapped
	}
	if c.Firecracker == "" && c.Jailer == "" {
		c.Firecracker, c.Jailer = FirecrackerCurrent+"/firecracker", FirecrackerCurrent+"/jailer"
	}
	if c.VolumeGiB == 0 {
		c.VolumeGiB = DefaultVolumeGiB
	}
	if c.PublicURL == "" {
		c.PublicURL = fmt.Sprintf("http://127.0.0.1:%d", i.APIPort())
	}
	if c.EdgeURL == "" {
		c.EdgeURL = fmt.Sprintf("http://127.0.0.1:%d", i.EdgePort())
	}
	if c.E2BURL == "" {
		c.E2BURL = fmt.Sprintf("http://127.0.0.1:%d", i.E2BAPIPort())
	}
	if c.E2BSandboxURL == "" {
		c.E2BSandboxURL = fmt.Sprintf("http://127.0.0.1:%d", i.E2BSandboxPort())
	}
	return c
}
