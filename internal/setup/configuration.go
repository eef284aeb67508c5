package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/space-platform/space/internal/instance"
)

// configuration is what a new instance's file says: nothing, with everything that could be said beside it.
const configuration = `# SPACE, instance %[1]s. Restart with 'space down' and 'space up' after a change. Unknown keys are refused.

# VMM driver: "firecracker" or "qemu". Empty: firecracker if a guest boots with it, else qemu.
#driver = ""

# The two programs of a release of Firecracker. Empty: those that 'space setup firecracker' has installed.
#firecracker = ""
#jailer = ""

# "kvm" or "tcg" for the qemu driver. Empty: kvm if a guest boots with it. tcg doesn't separate tenants.
#acceleration = ""

# Size of the volume with templates and disks, allocated whole when it's made.
#volume_gib = %[2]d

# How many restored and paused machines of each template and shape wait for the next sandboxes, which then run some ten times sooner: a
# number up to %[5]d, or "auto", as many as recent demand says within pool_memory_mib (0: a tenth of the memory).
#pool_size = "auto"
#pool_memory_mib = 0

# How clients reach the API and the edge. Empty: loopback, ports %[3]d and %[4]d.
#public_url = ""
#edge_url = ""

# How E2B's SDKs reach the two ports that are theirs. Empty: loopback, ports %[6]d and %[7]d.
#e2b_url = ""
#e2b_sandbox_url = ""

# An existing PostgreSQL instead of a private one is a secret: 'space up --database-url' writes it to database.toml.
`

// EnsureConfiguration writes a commented configuration file if there is none.
func EnsureConfiguration(i instance.Instance) error {
	f, err := os.OpenFile(i.ConfigFile(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = fmt.Fprintf(f, configuration, i.Name, instance.DefaultVolumeGiB, i.APIPort(), i.EdgePort(), instance.MaxPoolSize, i.E2BAPIPort(), i.E2BSandboxPort())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
