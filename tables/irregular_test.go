package tables

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIrregularFiles reads and writes devices and folders. None is replaced, and none is an empty
// table.
func TestIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	device := filepath.Join(dir, "device.csv")
	if err := os.Symlink(os.DevNull, device); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{device, dir} {
		if _, err := open(path, CSV, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("read %s: error %v, want that it is not a regular file", path, err)
		}
		p, _, _, err := startFile(path, "job", false, nil)
		if want := map[string]string{device: "not a regular file", dir: "is a folder"}[path]; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("write %s: error %v, want %q", path, err, want)
		}
		if p != nil {
			p.f.Close()
		}
	}
}

// TestOutputLink writes to a symbolic link: its target gets the result. Links of the names of the
// files beside it are not followed.
func TestOutputLink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv")
	target, victim := filepath.Join(other, "target.csv"), filepath.Join(other, "victim")
	writeTable(t, in, numbers(t, 2, 10)...)
	if err := os.Symlink(target, out); err != nil {
		t.Skip(err)
	}
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC()}, In: []string{in}, Out: out}
	if _, err := j.Run(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "link to a file that does not exist") {
		t.Errorf("a link without a target: error %v", err)
	}
	for _, path := range []string{target, victim} {
		if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{partialPath(target), journalPath(target)} {
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
		for _, j.Resume = range []bool{false, true} {
			if _, err := j.Run(t.Context()); err == nil ||
				!strings.Contains(err.Error(), path+" is not a regular file") {
				t.Errorf("%s is a link: error %v", path, err)
			}
		}
		if data, _ := os.ReadFile(victim); string(data) != "old" {
			t.Errorf("%s is a link: its target has become %q", path, data)
		}
		os.Remove(path)
	}
	os.Remove(partialPath(target))
	got := runFile(t, j)
	if info, err := os.Lstat(out); err != nil || info.Mode().IsRegular() {
		t.Errorf("the link has become %v, %v", info.Mode(), err)
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != string(got) || string(got) == "old" {
		t.Errorf("the target has %q, %v", data, err)
	}
	for _, folder := range []string{dir, other} {
		if list, err := os.ReadDir(folder); err != nil || len(list) != 2 {
			t.Errorf("%s has %v, want two files", folder, list)
		}
	}
}

// TestInputChanges cuts and extends an input file while it is read: an error, and no result. A file
// that is replaced stays as it is for its reader.
func TestInputChanges(t *testing.T) {
	smallPieces(t, 100)
	for _, f := range []Format{CSV, JSONLines, Parquet, ArrowFile, ArrowStream} {
		for name, change := range map[string]func(path string) error{
			"cut":      func(path string) error { return os.Truncate(path, 600) },
			"extended": func(path string) error { return os.Truncate(path, 10_000) },
			"replaced": func(path string) error {
				return errors.Join(os.WriteFile(path+".new", []byte("a,b,c,id\n"), 0o666), os.Rename(path+".new", path))
			},
		} {
			dir := t.TempDir()
			in, out := filepath.Join(dir, formats[f]), filepath.Join(dir, "out.csv")
			writeTable(t, in, numbers(t, 12, 10)...)
			j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 6}, In: []string{in}, Out: out}
			changed := false
			j.Progress = func(Progress) {
				if !changed {
					changed = true
					if err := change(in); err != nil {
						t.Error(err)
					}
				}
			}
			_, err := j.Run(t.Context())
			if name == "replaced" {
				if err != nil {
					t.Errorf("%s is %s: %v", f, name, err)
				}
				continue
			}
			if _, none := os.Stat(out); err == nil || none == nil {
				t.Errorf("%s is %s: error %v, and stat of the result gives %v", f, name, err, none)
			}
			if _, none := os.Stat(journalPath(out)); none == nil {
				j.Resume = true
				if _, err := j.Run(t.Context()); err == nil {
					t.Errorf("%s is %s: the job is continued", f, name)
				}
			}
		}
	}
}
