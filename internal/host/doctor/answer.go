package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/proc"
)

// maxAnswer bounds a cached answer.
const maxAnswer = 4 << 10

// brokenTime is for how long an answer is good that says no: the guest may have been too slow only because much else began on the host with it.
const brokenTime = 10 * time.Minute

// answer says whether a guest ran. It's good for as long as neither the boot, nor the VMM, nor the guest changes; see brokenTime. A cache that can't be read
// or written is done without.
type answer struct {
	Boot   string    `json:"boot"`  // of the host
	VMM    string    `json:"vmm"`   // with its version
	Guest  string    `json:"guest"` // digest
	Broken string    `json:"broken,omitempty"`
	At     time.Time `json:"at,omitzero"` // with Broken
}

// answerTo is the answer to whether this guest runs with this VMM, before it's known.
func answerTo(vmm string, guest []byte) answer {
	boot, err := proc.BootID()
	if err != nil {
		boot = "" // matches nothing that was written
	}
	sum := sha256.Sum256(guest)
	return answer{Boot: boot, VMM: vmm, Guest: hex.EncodeToString(sum[:])}
}

func (a answer) err() error {
	if a.Broken == "" {
		return nil
	}
	return errors.New(a.Broken)
}

// cached returns the answer to the same question from a file of a directory; "" is none.
func (a answer) cached(dir, name string) (answer, bool) {
	var known answer
	if dir == "" || a.Boot == "" || durable.ReadJSON(filepath.Join(dir, name), maxAnswer, &known) != nil {
		return known, false
	}
	if known.Broken != "" && time.Since(known.At) > brokenTime {
		return known, false
	}
	same := known
	same.Broken, same.At = "", time.Time{}
	return known, same == a
}

// keep writes down how it went.
func (a answer) keep(dir, name string, err error) {
	if dir == "" {
		return
	}
	if err != nil {
		a.Broken, a.At = err.Error(), time.Now()
	}
	durable.WriteJSON(filepath.Join(dir, name), a, 0o644)
}
