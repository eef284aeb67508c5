package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	space "github.com/space-platform/space"
)

// The limits of a machine's size and of a project's quota, as the API has them.
const (
	maxVCPUs                   = 32
	minMemoryMiB, maxMemoryMiB = space.MinMemoryMiB, 262144
	minDiskMiB, maxDiskMiB     = 64, 1048576
	maxQuotaCount, maxQuotaMiB = 1_000_000, 1_000_000_000
)

// number is the value of a flag that takes a whole number between limits.
type number[N int | int64] struct {
	to          *N
	least, most N
}

// numberVar adds such a flag. What to points to is its default; 0 isn't shown as one.
func numberVar[N int | int64](f *pflag.FlagSet, to *N, name, short, usage string, least, most N) {
	f.VarP(number[N]{to, least, most}, name, short, usage)
}

// Set implements pflag.Value.
func (n number[N]) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < int64(n.least) || v > int64(n.most) {
		return fmt.Errorf("want a whole number from %d to %d", n.least, n.most)
	}
	*n.to = N(v)
	return nil
}

// String implements pflag.Value.
func (n number[N]) String() string {
	if n.to == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*n.to), 10)
}

// Type is shown in help texts.
func (n number[N]) Type() string { return "int" }

// counted says how many there are of something.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
