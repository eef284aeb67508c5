package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFile bounds what is read of a key's file: 64 hexadecimal digits and a line's end.
const maxFile = 128

// Load returns the master key that a file holds, as 64 hexadecimal digits. If there's no file it makes a random key and the file,
// readable by its owner only and durable before Load returns. Two processes that do so at once get the same key. A file that others can
// read is refused.
func Load(path string) (*Key, error) {
	k, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("make the encryption key %s: %w", path, err)
		}
		k, err = read(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the encryption key %s: %w", path, err)
	}
	return k, nil
}

func read(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it isn't a file")
	case st.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("its mode is %#o, so others than its owner can read it: it must be 0600", st.Mode().Perm())
	case st.Size() > maxFile:
		return nil, fmt.Errorf("it has %d bytes: at most %d are allowed", st.Size(), maxFile)
	}
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	var k Key
	if s := strings.TrimSpace(string(b)); hex.DecodedLen(len(s)) != KeyBytes {
		return nil, fmt.Errorf("it must hold %d hexadecimal digits", hex.EncodedLen(KeyBytes))
	} else if _, err := hex.Decode(k.secret[:], []byte(s)); err != nil {
		return nil, errors.New("it holds something else than hexadecimal digits")
	}
	return &k, nil
}

// create writes the file whole and links it into place, unless another process has.
func create(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var secret [KeyBytes]byte
	rand.Read(secret[:])
	if _, err := fmt.Fprintf(f, "%x\n", secret); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
