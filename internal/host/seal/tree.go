package seal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Tree returns what the manifest says of a directory: the digest is of each name in it in order, with its length if it's a file, and of the file's blocks as File
// has them. Bytes and Data are those of all files. What is neither a file nor a directory is refused.
func Tree(ctx context.Context, dir string) (Info, error) {
	var out Info
	sum := sha256.New()
	note := func(kind byte, name string, bytes int64) {
		sum.Write(append([]byte{kind}, name...))
		sum.Write(binary.LittleEndian.AppendUint64([]byte{0}, uint64(bytes)))
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			note('d', name, 0)
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", name)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := scan(ctx, f, true)
		if err != nil {
			return err
		}
		note('f', name, info.Bytes)
		sum.Write([]byte(info.SHA256))
		out.Bytes, out.Data = out.Bytes+info.Bytes, out.Data+info.Data
		return nil
	})
	if err != nil {
		return Info{}, fmt.Errorf("read %s: %w", dir, err)
	}
	out.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}
