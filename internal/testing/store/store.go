// Package store keeps the downloaded parts that some tests need (the ONNX
// backend suite, ONNX Runtime's library) in the user's cache folder.
//
// A part is a folder. It is filled under a temporary name and renamed, so a part that
// exists is complete. It contains a [Record] with its source and the hash of its files.
package store

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const recordName = ".onward.json"

// MaxBytes is the limit of the unpacked size of one archive.
const MaxBytes = 1 << 30

// Record says where a part came from.
type Record struct {
	Source  string `json:"source"`  // how it was fetched
	Version string `json:"version"` // version of the part
	Archive string `json:"archive"` // SHA-256 of the downloaded file, in hex
	Tree    string `json:"tree"`    // TreeSum of the unpacked files
}

// Path returns the folder of the part with that name, whether it exists or not.
func Path(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	return filepath.Join(base, "onward", name), nil
}

// Lookup reads the record of a part without checking hashes, see [Verify]. The error is
// fs.ErrNotExist if the part does not exist.
func Lookup(dir string) (Record, error) {
	var r Record
	b, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, recordName), err)
	}
	return r, nil
}

// Verify reads the record of a part and compares the hash of its files.
func Verify(dir string) (Record, error) {
	r, err := Lookup(dir)
	if err != nil {
		return r, err
	}
	sum, err := TreeSum(dir)
	if err != nil {
		return r, err
	}
	if sum != r.Tree {
		return r, fmt.Errorf("%s: its files hash to %s, its record says %s", dir, sum, r.Tree)
	}
	return r, nil
}

// Install fills a new folder and moves it to dir, replacing the previous one. It computes
// the record's Tree, and returns an error if want is not empty and differs from it.
func Install(dir, want string, fill func(tmp string) (Record, error)) (Record, error) {
	var r Record
	base := filepath.Dir(dir)
	if err := os.MkdirAll(base, 0o755); err != nil {
		return r, err
	}
	tmp, err := os.MkdirTemp(base, filepath.Base(dir)+".new-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return r, err
	}
	if r, err = fill(tmp); err != nil {
		return r, err
	}
	if r.Tree, err = TreeSum(tmp); err != nil {
		return r, err
	}
	if want != "" && r.Tree != want {
		return r, fmt.Errorf("%s: the unpacked files hash to %s, want %s", r.Source, r.Tree, want)
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return r, err
	}
	if err := os.WriteFile(filepath.Join(tmp, recordName), append(b, '\n'), 0o644); err != nil {
		return r, err
	}
	if err := os.Rename(tmp, dir); err == nil {
		return r, nil
	}
	// dir exists: it is a damaged part, or another process has installed the part meanwhile.
	// The hash distinguishes the two.
	if old, err := Verify(dir); err == nil && old.Tree == r.Tree {
		return old, nil
	}
	aside := tmp + ".old"
	if err := os.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	defer os.RemoveAll(aside)
	return r, os.Rename(tmp, dir)
}

// TreeSum returns the SHA-256, in hex, over one line "sum  path" for each regular file
// below dir, sorted by slash-separated path. The record is not included.
func TreeSum(dir string) (string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		rel, err := filepath.Rel(dir, path)
		if rel != recordName {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	tree := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(tree, "%x  %s\n", sha256.Sum256(b), name)
	}
	return hex.EncodeToString(tree.Sum(nil)), nil
}

// CheckFile reads a file and compares its SHA-256 with want, in hex.
func CheckFile(path, want string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != want {
		return nil, fmt.Errorf("%s has SHA-256 %x, want %s", filepath.Base(path), got, want)
	}
	return b, nil
}

// ExtractZip unpacks the regular files whose names begin with prefix (a folder,
// ending in a slash) into dir, without the prefix. It returns how many there were.
func ExtractZip(archive []byte, prefix, dir string) (int, error) {
	return ExtractZipAs(archive, dir, func(name string) (string, bool) { return strings.CutPrefix(name, prefix) })
}

// ExtractZipAs unpacks the regular files for which rename returns a name into dir,
// under that name. It returns how many there were.
func ExtractZipAs(archive []byte, dir string, rename func(name string) (string, bool)) (int, error) {
	zr, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return 0, err
	}
	w, err := newWriter(dir)
	if err != nil {
		return 0, err
	}
	defer w.root.Close()
	for _, f := range zr.File {
		rel, ok := rename(f.Name)
		if !ok || !f.Mode().IsRegular() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return w.files, fmt.Errorf("%q: %w", f.Name, err)
		}
		err = errors.Join(w.write(rel, r), r.Close())
		if err != nil {
			return w.files, fmt.Errorf("%q: %w", f.Name, err)
		}
	}
	return w.files, nil
}

// ExtractTgz unpacks the regular files for which rename returns a name into dir,
// under that name. It returns how many there were.
func ExtractTgz(archive []byte, dir string, rename func(name string) (string, bool)) (int, error) {
	gz, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return 0, err
	}
	return ExtractTar(gz, dir, rename)
}

// ExtractTar extracts files of a tar archive as [ExtractTgz] does.
func ExtractTar(archive io.Reader, dir string, rename func(name string) (string, bool)) (int, error) {
	w, err := newWriter(dir)
	if err != nil {
		return 0, err
	}
	defer w.root.Close()
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return w.files, nil
		}
		if err != nil {
			return w.files, err
		}
		rel, ok := rename(h.Name)
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := w.write(rel, tr); err != nil {
			return w.files, fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

// writer creates files below one folder and never outside it.
type writer struct {
	root  *os.Root
	files int
	bytes int64
}

func newWriter(dir string) (*writer, error) {
	root, err := os.OpenRoot(dir)
	return &writer{root: root}, err
}

func (w *writer) write(name string, r io.Reader) error {
	local, err := filepath.Localize(name)
	if err != nil {
		return fmt.Errorf("the name %q is not a path inside the folder", name)
	}
	if err := w.root.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return err
	}
	f, err := w.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, MaxBytes-w.bytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	w.files++
	if w.bytes += n; w.bytes > MaxBytes {
		return fmt.Errorf("the archive unpacks to more than %d bytes", int64(MaxBytes))
	}
	return nil
}
