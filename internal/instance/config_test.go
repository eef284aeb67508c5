package instance_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/instance"
)

// TestWhatOnlyFirecrackerDoes has the keys that another driver would ignore.
func TestWhatOnlyFirecrackerDoes(t *testing.T) {
	i := own(t)
	for text, want := range map[string][]string{
		"": nil,
		"cpu_template = \"/etc/space/cpu.json\"\nnetwork_receive_bytes = 20000000\nnetwork_send_bytes = 100000\n": {"cpu_template", "network_receive_bytes", "network_send_bytes"},
		"network_send_bytes = 100000\n": {"network_send_bytes"},
	} {
		configure(t, i, text)
		c, err := instance.LoadConfig(i)
		if got := c.FirecrackerOnly(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestThePoolsSizeIsANumberOrAuto(t *testing.T) {
	i := own(t)
	for text, want := range map[string]instance.PoolSize{"": instance.PoolAuto, "pool_size = 0": "0", `pool_size = "0"`: "0", "pool_size = 64": "64", `pool_size = "auto"`: instance.PoolAuto} {
		configure(t, i, text)
		if c, err := instance.LoadConfig(i); err != nil || c.PoolSize != want {
			t.Errorf("%q: %q, %v, want %q", text, c.PoolSize, err, want)
		}
	}
}

func TestAConfigurationThatMakesNoSenseIsRefused(t *testing.T) {
	i := own(t)
	for text, want := range map[string]string{
		"network_send_bytes = -1":                    "network_send_bytes is -1, want 0 for no limit or at least 100000",
		"network_receive_bytes = 99999":              "network_receive_bytes is 99999",
		"network_bytes = 1":                          `unknown key "network_bytes"`,
		"pool_size = \"65\"":                         `pool_size is "65"`,
		"pool_size = 65":                             `pool_size is "65"`,
		"pool_size = 0.5":                            `pool_size is "0.5"`,
		`firecracker = "/fc"`:                        "firecracker and jailer belong together",
		`jailer = "/jailer"`:                         "firecracker and jailer belong together",
		`cpu_template = "cpu.json"`:                  `cpu_template is "cpu.json", want an absolute path`,
		"firecracker = \"fc\"\njailer = \"/jailer\"": `firecracker is "fc", want an absolute path`,
		`restored_memory = "magic"`:                  `restored_memory is "magic", want "mapped" or "paged"`,
	} {
		configure(t, i, text)
		if _, err := instance.LoadConfig(i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func configure(t *testing.T, i instance.Instance, text string) {
	t.Helper()
	if err := os.WriteFile(i.ConfigFile(), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
