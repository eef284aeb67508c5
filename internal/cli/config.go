package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"

	"github.com/space-platform/space/internal/instance"
)

// Config is the CLI's configuration file: ~/.config/space/config.toml, or what SPACE_CONFIG names. It holds keys, so its mode is 0600.
// Flags win over the environment, which wins over the file.
type Config struct {
	// Instance is the platform to talk to when neither --instance nor SPACE_INSTANCE says.
	Instance string `toml:"instance,omitempty"`
	// Instances are the platforms that this user knows, by name. 'space up' adds those on this machine.
	Instances map[string]Entry `toml:"instances"`
}

// Entry is one platform.
type Entry struct {
	// URL is where its API is. --url and SPACE_URL win over it.
	URL string `toml:"url"`
	// APIKey opens it. It's sent to this entry's URL only. --api-key-file and SPACE_API_KEY win over it.
	APIKey string `toml:"api_key"`
}

// configPath is where the file is.
func configPath(getenv func(string) string) (string, error) {
	if p := getenv("SPACE_CONFIG"); p != "" {
		return p, nil
	}
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("find the configuration: neither SPACE_CONFIG, XDG_CONFIG_HOME nor HOME is set")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "space", "config.toml"), nil
}

// readConfig reads the file; a missing one is empty. One that others may read, or that has unknown keys, is refused.
func readConfig(path string) (Config, error) {
	var c Config
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return c, fmt.Errorf("read the configuration %s: it holds keys and its mode is %#o: run chmod 600 on it", path, st.Mode().Perm())
	}
	meta, err := toml.DecodeFile(path, &c)
	if err != nil {
		return c, fmt.Errorf("read the configuration %s: %w", path, err)
	}
	if keys := meta.Undecoded(); len(keys) > 0 {
		return c, fmt.Errorf("read the configuration %s: unknown key %q", path, keys[0].String())
	}
	for name := range c.Instances {
		if err := instance.CheckName(name); err != nil {
			return c, fmt.Errorf("read the configuration %s: %w", path, err)
		}
	}
	return c, nil
}

// writeConfig replaces the file in one step.
func writeConfig(path string, c Config) error {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(c); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	give, err := ownerAbove(path)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".config.toml.*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b.Bytes())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := give(); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
