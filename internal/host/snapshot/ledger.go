package snapshot

import "math/bits"

const (
	blockBytes = 4096 // of a volume: no two files share less
	pageBlocks = 1 << 15
)

// ledger says which blocks of the volume count already. It takes a bit for each block, in pages for 128 MiB where something is: at most some 32 MiB for each TiB.
type ledger struct {
	pages map[int64]*[pageBlocks / 64]uint64
	known map[string]bool // directories of templates whose blocks count
}

func newLedger() *ledger {
	return &ledger{pages: map[int64]*[pageBlocks / 64]uint64{}, known: map[string]bool{}}
}

// take has the blocks at a place count from now on, and returns how many bytes of them didn't yet.
func (l *ledger) take(place, length int64) int64 {
	fresh := int64(0)
	block, end := place/blockBytes, (place+length+blockBytes-1)/blockBytes
	for block < end {
		page := l.pages[block/pageBlocks]
		if page == nil {
			page = new([pageBlocks / 64]uint64)
			l.pages[block/pageBlocks] = page
		}
		first := block % 64
		n := min(64-first, end-block) // blocks of this word
		mask := ^uint64(0) >> (64 - n) << first
		word := &page[block%pageBlocks/64]
		fresh += int64(bits.OnesCount64(mask &^ *word))
		*word |= mask
		block += n
	}
	return fresh * blockBytes
}
