package instance_test

import (
	"testing"

	"github.com/space-platform/space/internal/instance"
)

func TestHowMemoryComesIsOneOfTheWaysThereAre(t *testing.T) {
	i := own(t)
	for text, want := range map[string]string{"": instance.MemoryMapped, `restored_memory = "mapped"`: instance.MemoryMapped, `restored_memory = "paged"`: instance.MemoryPaged} {
		configure(t, i, text)
		if c, err := instance.LoadConfig(i); err != nil || c.RestoredMemory != want {
			t.Errorf("%q: %q, %v, want %q", text, c.RestoredMemory, err, want)
		}
	}
}
