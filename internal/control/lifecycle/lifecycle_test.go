package lifecycle

import (
	"errors"
	"math"
	"testing"

	space "github.com/space-platform/space"
)

// TestTiers holds the limits of what is kept, for numbers whose nanoseconds come around to allowed ones, too.
func TestTiers(t *testing.T) {
	const (
		day    = 24 * 3600
		around = 1<<55 + 3600 // times 10^9 it is an hour, modulo 2^64
	)
	hour := 3600
	for _, x := range []struct {
		tier  Tier
		legal bool
	}{
		{Tier{EverySeconds: 0, ForSeconds: 60}, true},
		{Tier{EverySeconds: 365 * day, ForSeconds: 365 * day}, true},
		{Tier{EverySeconds: -1, ForSeconds: 60}, false},
		{Tier{EverySeconds: 0, ForSeconds: 59}, false},
		{Tier{EverySeconds: 365*day + 1, ForSeconds: 60}, false},
		{Tier{EverySeconds: 0, ForSeconds: 365*day + 1}, false},
		{Tier{EverySeconds: around, ForSeconds: 60}, false},
		{Tier{EverySeconds: 0, ForSeconds: around}, false},
		{Tier{EverySeconds: -around, ForSeconds: math.MinInt + 3600}, false},
	} {
		_, err := (&Rolling{DiskEverySeconds: &hour, Keep: []Tier{x.tier}}).record()
		var named *space.Error
		if x.legal != (err == nil) || err != nil && (!errors.As(err, &named) || named.Field != "lifecycle.rolling.keep") {
			t.Errorf("%+v: %v", x.tier, err)
		}
	}
}
