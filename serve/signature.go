package serve

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onward-ml/onward/serve/inference"
)

// maxFiles bounds the files of a model that are looked at for changes.
const maxFiles = 100_000

// clockTick is more than the clock that times files takes to advance: 10 ms at most.
const clockTick = 20 * time.Millisecond

// changed reports whether the files of a model differ from those of the last attempt to load it,
// and remembers them.
func (s *Server) changed(name string) bool {
	sign := s.signatureOf(name)
	if s.seen[name] == sign {
		return false
	}
	s.seen[name] = sign
	return true
}

func (s *Server) signatureOf(name string) string {
	paths := append(modelFile(filepath.Join(s.repo, name+".onnx")), filepath.Join(s.repo, name))
	for _, m := range s.opts.Models {
		if m.Name == name && s.repo == "" {
			paths = modelFile(m.Path)
		} else if m.Name == name {
			paths = append(paths, modelFile(m.Path)...)
		}
	}
	return signature(paths...)
}

// modelFile returns a model's file and the names that exporters give to its external data. Other
// files of the folder can belong to other models.
func modelFile(path string) []string {
	if path == "" {
		return nil
	}
	return []string{path, path + ".data", path + "_data"}
}

// signature returns a hash of the names, sizes and times of the files below paths, and of what
// links refer to. Each later change makes it another one: if a file has just changed, it waits
// until the clock has advanced, because a second change could have the same time.
func signature(paths ...string) string {
	for try := 1; ; try++ {
		w := signer{h: sha256.New()}
		for _, p := range paths {
			w.walk(p, true, nil)
		}
		// A time in the future is one of another clock.
		age := time.Since(w.newest)
		if age < 0 || age >= clockTick || try == maxTries {
			return string(w.h.Sum(nil))
		}
		time.Sleep(clockTick - age)
	}
}

// signer hashes the files below paths.
type signer struct {
	h      hash.Hash
	n      int       // files
	newest time.Time // of their changes
}

// walk hashes a file, or a folder with its files. Folders that contain it are in parents.
func (w *signer) walk(path string, link bool, parents []fs.FileInfo) {
	info, err := os.Stat(path) // follows links: Kubernetes replaces the target of one
	if w.n++; err != nil || w.n > maxFiles || len(parents) > 8 {
		return
	}
	real := ""
	if link {
		real = w.follow(path) // its files can have equal times
	}
	w.add(path, real, info)
	if !info.IsDir() {
		return
	}
	for _, p := range parents {
		if os.SameFile(p, info) { // a link to a folder that contains it
			return
		}
	}
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		w.walk(filepath.Join(path, e.Name()), e.Type()&fs.ModeSymlink != 0, append(parents, info))
	}
}

// maxLinks bounds the links on the way to a file, as the kernel does.
const maxLinks = 40

// follow returns what a path refers to. It hashes the links on the way, of which each may have
// been another one meanwhile: the model's folder, or that with which Kubernetes replaces the files
// of a volume.
func (w *signer) follow(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	const separator = string(filepath.Separator)
	root := filepath.VolumeName(path) + separator
	real, rest := root, strings.Split(strings.TrimPrefix(path, root), separator)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(real, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return ""
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return ""
		}
		w.add(next, target, info)
		if filepath.IsAbs(target) {
			real = filepath.VolumeName(target) + separator
			target = strings.TrimPrefix(target, real)
		}
		rest = append(strings.Split(target, separator), rest...)
	}
	return real
}

// add hashes what is known about a file.
func (w *signer) add(path, real string, info fs.FileInfo) {
	changed := changeTime(info)
	fmt.Fprintf(w.h, "%q %q %d %d %d\n", path, real, info.Size(), info.ModTime().UnixNano(), changed.UnixNano())
	if changed.After(w.newest) {
		w.newest = changed
	}
}

// configHash returns a hash of a configuration.
func configHash(c *inference.ModelConfig) string {
	h := sha256.Sum256([]byte(c.String()))
	return string(h[:])
}
