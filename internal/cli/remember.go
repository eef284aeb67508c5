package cli

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Known returns the entry of an instance in the user's configuration, the zero Entry if there is none, and the file's path.
func Known(getenv func(string) string, name string) (Entry, string, error) {
	path, err := configPath(getenv)
	if err != nil {
		return Entry{}, "", err
	}
	c, err := readConfig(path)
	return c.Instances[name], path, err
}

// Remember writes an instance into the user's configuration. The first one becomes the one that commands use.
func Remember(getenv func(string) string, name string, e Entry) error {
	path, err := configPath(getenv)
	if err != nil {
		return err
	}
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	if c.Instances == nil {
		c.Instances = map[string]Entry{}
	}
	c.Instances[name] = e
	if c.Instance == "" {
		c.Instance = name
	}
	return writeConfig(path, c)
}

// Forget removes an instance from the user's configuration, and the file with the last one.
func Forget(getenv func(string) string, name string) error {
	path, err := configPath(getenv)
	if err != nil {
		return err
	}
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	delete(c.Instances, name)
	if c.Instance == name {
		c.Instance = ""
	}
	if len(c.Instances) > 0 {
		return writeConfig(path, c)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	os.Remove(filepath.Dir(path)) // fails unless it's empty, which is meant
	return nil
}

// Instances are the names of the platforms in the user's configuration.
func Instances(getenv func(string) string) []string {
	path, err := configPath(getenv)
	if err != nil {
		return nil
	}
	c, err := readConfig(path)
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Instances))
}

// CurrentInstance is the instance that commands use when no flag names one: SPACE_INSTANCE, else the configuration's, else the default.
func CurrentInstance(getenv func(string) string) (string, error) {
	path, err := configPath(getenv)
	if err != nil {
		return "", err
	}
	c, err := readConfig(path)
	if err != nil {
		return "", err
	}
	return c.current(getenv), nil
}
