package tables

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// filesOf returns the names of the files of a folder.
func filesOf(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestDamagedJournals resumes after each part of the journal has been damaged.
func TestDamagedJournals(t *testing.T) {
	smallPieces(t, 100)
	in, out := filepath.Join(t.TempDir(), "in.csv"), filepath.Join(t.TempDir(), "out.parquet")
	writeTable(t, in, numbers(t, 12, 10)...)
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 6}, In: []string{in}, Out: out,
		Resume: true}
	want := runFile(t, j)
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	interrupted(t, j, 30)
	part, err := os.ReadFile(partialPath(out))
	if err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(journalPath(out))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(journal); at += max(1, len(journal)/25) {
		damaged := bytes.Clone(journal)
		damaged[at] ^= 1
		if err := errors.Join(os.WriteFile(partialPath(out), part, 0o666),
			os.WriteFile(journalPath(out), damaged, 0o666)); err != nil {
			t.Fatal(err)
		}
		if got := runFile(t, j); !bytes.Equal(got, want) {
			t.Errorf("byte %d of the journal is changed: %d bytes differ from %d", at, len(got), len(want))
		}
	}
}

// TestInputsBesideTheResult reads files that a job would replace while it writes.
func TestInputsBesideTheResult(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.csv")
	table := filepath.Join(dir, "table.csv")
	writeTable(t, table, numbers(t, 1, 10)...)
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.csv")
	for _, path := range []string{out, partialPath(out), journalPath(out)} {
		for _, resume := range []bool{false, true} {
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(path, link); err != nil {
				t.Skip(err)
			}
			for _, in := range []string{path, link} {
				j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC()}, In: []string{in}, From: CSV,
					Out: out, Resume: resume}
				if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is read by the job") {
					t.Errorf("%s for %s, resume %v: %v, want an error", in, path, resume, err)
				}
				if got, err := os.ReadFile(in); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%s for %s, resume %v: the input has %d bytes, %v, want %d", in, path, resume,
						len(got), err, len(text))
				}
			}
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilesOfFailedJobs: a job that fails leaves only what can be resumed.
func TestFilesOfFailedJobs(t *testing.T) {
	smallPieces(t, 100)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv")
	writeTable(t, in, numbers(t, 12, 10)...)
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC(), Batch: 6}, In: []string{in},
		Out: filepath.Join(dir, "want.csv")}
	want := runFile(t, j)
	j.Out = out
	if err := os.Mkdir(journalPath(out), 0o777); err != nil { // the journal cannot be written
		t.Fatal(err)
	}
	if _, err := j.Run(t.Context()); err == nil {
		t.Error("the journal is a folder, and there is no error")
	}
	if _, err := os.Stat(partialPath(out)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the partial file is left: %v", err)
	}
	if err := os.Remove(journalPath(out)); err != nil {
		t.Fatal(err)
	}
	j.Resume = true
	j.Progress = func(Progress) {
		os.MkdirAll(filepath.Join(out, "x"), 0o777) // no file can have this name
	}
	if _, err := j.Run(t.Context()); err == nil {
		t.Fatal("the result replaces a folder")
	}
	for _, path := range []string{partialPath(out), journalPath(out)} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("after a result without a name: %v", err)
		}
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	j.Progress = func(p Progress) { t.Errorf("%d rows are scored again", p.Rows) }
	if got := runFile(t, j); !bytes.Equal(got, want) {
		t.Errorf("%d bytes differ from %d", len(got), len(want))
	}
	if list := filesOf(t, dir); len(list) != 3 {
		t.Errorf("the folder has %q, want the input and two results", list)
	}
	// No job writes or removes another name.
	other := journalPath(out) + ".done"
	if err := os.WriteFile(other, want, 0o666); err != nil {
		t.Fatal(err)
	}
	j.Progress, j.Resume = nil, false
	runFile(t, j)
	if list := filesOf(t, dir); len(list) != 4 {
		t.Errorf("the folder has %q, want a file more", list)
	}
}
