package instance

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/BurntSushi/toml"
)

// Config is the platform's configuration file, config.toml in the data directory. Every field has a usable zero value; unknown keys are refused.
type Config struct {
	// Driver forces a VMM driver: "qemu", "fake" (tests). Empty: the best that doctor finds.
	Driver string `toml:"driver"`
	// Acceleration forces "kvm" or "tcg" for the qemu driver. Empty: kvm if a guest boots with it.
	Acceleration string `toml:"acceleration"`
	// VolumeGiB is the size of the btrfs image, allocated whole when it's made. 0: DefaultVolumeGiB.
	VolumeGiB int `toml:"volume_gib"`
	// PublicURL and EdgeURL are how clients reach the API and the edge. Empty: loopback with the instance's ports.
	PublicURL string `toml:"public_url"`
	EdgeURL   string `toml:"edge_url"`
}

// DefaultVolumeGiB is the size of the btrfs image when the configuration doesn't say.
const DefaultVolumeGiB = 12

// LoadConfig reads an instance's configuration; a missing file is an empty one.
func LoadConfig(i Instance) (Config, error) {
	var c Config
	meta, err := toml.DecodeFile(i.ConfigFile(), &c)
	if errors.Is(err, fs.ErrNotExist) {
		return c.withDefaults(i), nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read configuration %s: %w", i.ConfigFile(), err)
	}
	if keys := meta.Undecoded(); len(keys) > 0 {
		return Config{}, fmt.Errorf("read configuration %s: unknown key %q", i.ConfigFile(), keys[0].String())
	}
	return c.withDefaults(i), nil
}

func (c Config) withDefaults(i Instance) Config {
	if c.VolumeGiB == 0 {
		c.VolumeGiB = DefaultVolumeGiB
	}
	if c.PublicURL == "" {
		c.PublicURL = fmt.Sprintf("http://127.0.0.1:%d", i.APIPort())
	}
	if c.EdgeURL == "" {
		c.EdgeURL = fmt.Sprintf("http://127.0.0.1:%d", i.EdgePort())
	}
	return c
}
