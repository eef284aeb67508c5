package files

import (
	"cmp"
	"os"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/archive"
)

// owner is whom what is made belongs to; nil: the user who makes it. The kernel lets only root give things away.
type owner archive.Owner

// owner finds the owner that a call names; neither a user nor a group: none.
func (c *call) owner(user, group string) (*owner, error) {
	if user == "" && group == "" {
		return nil, nil
	}
	who, err := c.accounts.Find(cmp.Or(user, c.user.Name))
	if err != nil {
		return nil, space.FieldErrorf("owner", "%s", err)
	}
	out := &owner{UID: int(who.UID), GID: int(who.GID)}
	if group != "" {
		gid, err := c.accounts.GroupID(group)
		if err != nil {
			return nil, space.FieldErrorf("group", "%s", err)
		}
		out.GID = int(gid)
	}
	return out, nil
}

// give gives directories that were just made to the owner.
func (o *owner) give(made []string) error {
	if o == nil {
		return nil
	}
	for _, dir := range made {
		if err := os.Lchown(dir, o.UID, o.GID); err != nil {
			return err
		}
	}
	return nil
}
