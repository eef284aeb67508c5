package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/space-platform/space/internal/instance"
)

// maxKeyFile bounds a file that holds a key.
const maxKeyFile = 4 << 10

// Overrides are what flags say: they win over the environment, which wins over the configuration file.
type Overrides struct {
	Instance   string // --instance, SPACE_INSTANCE
	URL        string // --url, SPACE_URL
	APIKeyFile string // --api-key-file; SPACE_API_KEY holds the key itself
}

// Settings say where to go and with which key.
type Settings struct {
	Instance string
	URL      string
	APIKey   string
}

// Load decides where to go.
func Load(o Overrides) (Settings, error) { return o.load(os.Getenv) }

func (o Overrides) load(getenv func(string) string) (Settings, error) {
	path, err := configPath(getenv)
	if err != nil { // who has no home has no file either: flags and the environment are enough
		return o.resolve(Config{}, getenv)
	}
	c, err := readConfig(path)
	if err != nil {
		return Settings{}, err
	}
	return o.resolve(c, getenv)
}

func (c Config) current(getenv func(string) string) string {
	return cmp.Or(getenv("SPACE_INSTANCE"), c.Instance, instance.DefaultName)
}

// resolve puts flags, environment and file together. The file's key goes to the file's address only, so that a different address
// doesn't learn it.
func (o Overrides) resolve(c Config, getenv func(string) string) (Settings, error) {
	s := Settings{Instance: cmp.Or(o.Instance, c.current(getenv))}
	entry := c.Instances[s.Instance]
	s.URL = cmp.Or(o.URL, getenv("SPACE_URL"), entry.URL)
	if s.URL == "" {
		return s, c.unknown(s.Instance)
	}
	var err error
	if s.APIKey, err = o.key(getenv); err != nil || s.APIKey != "" {
		return s, err
	}
	if entry.APIKey == "" || !sameAddress(s.URL, entry.URL) {
		return s, ErrorWithHint("not_configured", "set SPACE_API_KEY, or name a file with --api-key-file", "no API key for %s", s.URL)
	}
	s.APIKey, err = apiKey.in("the configuration file's api_key of "+s.Instance, entry.APIKey)
	return s, err
}

// unknown is the error for a platform that the file doesn't have, with those that it has.
func (c Config) unknown(name string) error {
	hint := fmt.Sprintf("start one here with 'space up --instance %s', or set SPACE_URL and SPACE_API_KEY", name)
	if names := slices.Sorted(maps.Keys(c.Instances)); len(names) > 0 {
		hint = fmt.Sprintf("known are %s: choose with --instance or SPACE_INSTANCE; or %s", list(names), hint)
	}
	return ErrorWithHint("not_configured", hint, "no platform called %s is known", name)
}

func (o Overrides) key(getenv func(string) string) (string, error) {
	if o.APIKeyFile == "" {
		if text := getenv("SPACE_API_KEY"); text != "" {
			return apiKey.in("SPACE_API_KEY", text)
		}
		return "", nil
	}
	text, err := apiKey.read(o.APIKeyFile, maxKeyFile)
	if err != nil {
		return "", err
	}
	return apiKey.in(o.APIKeyFile, text)
}

func sameAddress(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
