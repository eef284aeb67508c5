package record

import "time"

const (
	// UploadLife is how long an upload's token lets a client send its bytes.
	UploadLife = time.Hour
	// UploadKept is how long after its creation an upload can be used by a build that begins.
	UploadKept = 24 * time.Hour
)

// Upload is what a client brings to a node for a build.
type Upload struct {
	ID        string
	Project   string
	Node      string
	Token     TokenHash
	SHA256    string // in hex; empty: whatever it is
	ExpiresAt time.Time
	Expired   bool
	Deleted   bool   // or its project is
	Named     bool   // a build was made that uses it: its bytes are what they were then
	DiskQuota *int64 // of its project, in bytes; nil: unlimited
}

// NewUpload is an upload to be stored.
type NewUpload struct {
	ID      string
	Project string
	Node    string
	Token   TokenHash
	SHA256  string
	Request Request
}

// UploadInfo is an upload as its project sees it.
type UploadInfo struct {
	ID          string
	SHA256      string // that it was begun with, in hex; empty: none
	Bytes       int64  // that its node has
	InUse       bool   // by a build that hasn't ended
	CreatedAt   time.Time
	UsableUntil time.Time
}

// UploadSeen is how much of an upload its node has.
type UploadSeen struct {
	ID    string
	Bytes int64
}
