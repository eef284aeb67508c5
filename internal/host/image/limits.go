package image

import "fmt"

// Limits bound what a tree may become. All layers count together, and what a layer removes or replaces has counted already.
type Limits struct {
	Bytes   int64 // of files' content
	Entries int   // of archives, whiteouts included
	Packed  int64 // bytes of one file, from which on it must not have been compressed better than 200 to 1
}

// DefaultLimits are those of a tree whose disk has no ordered size.
var DefaultLimits = Limits{Bytes: 32 << 30, Entries: 2_000_000, Packed: 256 << 20}

// Limits that nobody changes.
const (
	maxLayers       = 512
	maxName         = 4096     // bytes of a path
	maxPart         = 255      // bytes of one of its parts
	maxDepth        = 256      // directories below the root
	maxLinks        = 40       // symbolic links followed on one path
	maxXattrs       = 64       // of one entry
	maxXattrBytes   = 3 << 10  // of one entry, names included: what a block of the disk's file system holds
	maxRatio        = 200      // bytes of a file beyond Limits.Packed for each compressed one
	streamFactor    = 2        // decompressed bytes of all layers, headers and padding included, for each of Limits.Bytes
	streamAllowance = 16 << 20 // more of them, for trees with small limits
)

// usage is what a tree has taken of its limits.
type usage struct {
	bytes   int64
	entries int
	stream  int64
}

func tooMany(what string, n, limit int64) error {
	return fmt.Errorf("%w: %d %s, the limit is %d", ErrTooLarge, n, what, limit)
}
