package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// maxKeyFile bounds a file that holds a key.
const maxKeyFile = 4 << 10

// settings are the flags that every client command has.
type settings struct {
	instance string // --instance, SPACE_INSTANCE
	url      string // --url, SPACE_URL
	keyFile  string // --api-key-file; SPACE_API_KEY holds the key itself
}

func (c Config) current(getenv func(string) string) string {
	return cmp.Or(getenv("SPACE_INSTANCE"), c.Instance, instance.DefaultName)
}

// resolve decides where to go and with which key: flags, then the environment, then the file. The file's key goes to the file's
// address only, so that a different address doesn't learn it.
func (s settings) resolve(c Config, getenv func(string) string) (url, key string, err error) {
	name := cmp.Or(s.instance, c.current(getenv))
	entry := c.Instances[name]
	url = cmp.Or(s.url, getenv("SPACE_URL"), entry.URL)
	if url == "" {
		return "", "", &cliError{code: "not_configured", message: fmt.Sprintf("no platform called %s is known", name),
			hint: fmt.Sprintf("start one here with 'space up --instance %s', or set SPACE_URL and SPACE_API_KEY", name)}
	}
	key, err = s.key(getenv)
	if err != nil || key != "" {
		return url, key, err
	}
	if entry.APIKey != "" && sameAddress(url, entry.URL) {
		return url, entry.APIKey, nil
	}
	return "", "", &cliError{code: "not_configured", message: fmt.Sprintf("no API key for %s", url), hint: "set SPACE_API_KEY, or name a file with --api-key-file"}
}

func (s settings) key(getenv func(string) string) (string, error) {
	if s.keyFile == "" {
		return getenv("SPACE_API_KEY"), nil
	}
	f, err := os.Open(s.keyFile)
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" {
		return "", fmt.Errorf("read the API key: %s is empty", s.keyFile)
	}
	return key, nil
}

func sameAddress(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// client makes the client that the settings ask for.
func (s settings) client(getenv func(string) string) (*client.Client, error) {
	path, err := configPath(getenv)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	url, key, err := s.resolve(c, getenv)
	if err != nil {
		return nil, err
	}
	return client.New(url, key)
}
