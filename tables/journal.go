package tables

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// A piece is the part of the result that one part of the input gives. After a piece an
// interrupted job can be continued.
type piece struct {
	End    int64      `json:"end"`             // size of the file after it
	CRC    uint32     `json:"crc32c"`          // of its bytes
	State  []byte     `json:"state,omitempty"` // of the encoder
	Counts Counts     `json:"counts"`
	First  []RowError `json:"first,omitempty"` // rejected rows
}

// journal records the pieces of a file that is being written. It consists of a line with
// the job and a line per piece. Each line begins with a checksum of the rest.
type journal struct {
	path   string
	f      *os.File
	pieces int // in the journal
}

func partialPath(out string) string { return out + ".partial" }
func journalPath(out string) string { return out + ".journal" }

// resolve returns the file that a symbolic link names: the link stays, and its target gets the
// result. A path that is no link is returned as it is.
func resolve(out string) (string, error) {
	info, err := os.Lstat(out)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return out, nil
	}
	target, err := filepath.EvalSymlinks(out)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is a symbolic link to a file that does not exist: name that file", out)
	}
	return target, err
}

// startFile creates the file beside the result and its journal, or opens those of an
// interrupted job. job describes everything that determines the bytes of the result. It replaces
// none of the files keep.
func startFile(out, job string, resume bool, keep []fs.FileInfo) (p *partial, j *journal, done []piece, err error) {
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return nil, nil, nil, fmt.Errorf("%s is a folder", out)
	}
	// The result replaces the file of this name, and would replace a device such as /dev/null.
	if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
		return nil, nil, nil, fmt.Errorf("%s is not a regular file: use standard output for it", out)
	}
	for _, path := range []string{out, partialPath(out), journalPath(out)} {
		if info, err := os.Stat(path); err == nil && slices.ContainsFunc(keep, func(f fs.FileInfo) bool {
			return os.SameFile(f, info)
		}) {
			return nil, nil, nil, fmt.Errorf("%s is read by the job and would be replaced: choose another output", path)
		}
	}
	partialFile, err := openPartial(out)
	if err != nil {
		return nil, nil, nil, err
	}
	discard := func() { // what would resume nothing
		if len(done) == 0 && runtime.GOOS != "windows" {
			os.Remove(partialPath(out)) // while it is locked
		}
		partialFile.Close()
	}
	if err := keepMode(partialFile, out, 0o600); err != nil { // so that it can be resumed
		partialFile.Close()
		return nil, nil, nil, err
	}
	if resume {
		p, done, err = reopen(out, job, partialFile)
		if errors.Is(err, fs.ErrNotExist) { // no journal
			err = nil
		}
	}
	if err == nil && p == nil {
		p, err = &partial{f: partialFile}, partialFile.Truncate(0)
	}
	if err != nil {
		partialFile.Close()
		return nil, nil, nil, err
	}
	// Rewrite the journal: its last line may be cut.
	f, err := openBeside(journalPath(out), os.O_WRONLY|os.O_CREATE)
	if err != nil {
		discard()
		return nil, nil, nil, err
	}
	j = &journal{path: journalPath(out), f: f}
	if err = f.Truncate(0); err == nil {
		err = j.append(job)
	}
	for _, d := range done {
		if err == nil {
			err = j.append(d)
		}
	}
	if err != nil {
		f.Close()
		if len(done) == 0 {
			err = errors.Join(err, os.Remove(j.path))
		}
		discard()
		return nil, nil, nil, err
	}
	return p, j, done, nil
}

// keepMode gives f the mode of the file that it will replace, and the bits more. On Windows the
// mode says only whether a file can be replaced at all.
func keepMode(f *os.File, out string, more fs.FileMode) error {
	old, err := os.Stat(out)
	if err != nil || runtime.GOOS == "windows" {
		return nil
	}
	mode := old.Mode().Perm() | more
	own, err := f.Stat()
	if err == nil && own.Mode().Perm() != mode {
		err = f.Chmod(mode)
	}
	return err
}

// errBusy is the error for a file that another job is writing.
var errBusy = errors.New("another job is writing this file")

// openPartial opens the file beside the result, or creates it, and locks it against other jobs.
func openPartial(out string) (*os.File, error) {
	f, err := openBeside(partialPath(out), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err = lock(f); err == nil && !sameFile(f, partialPath(out)) {
		err = errBusy // that has renamed it meanwhile
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", partialPath(out), err)
	}
	return f, nil
}

// openBeside opens a file beside the result. It follows no link, and does not wait for the other
// end of a pipe.
func openBeside(path string, flags int) (*os.File, error) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist) {
		f, err := os.OpenFile(path, flags|openFlags, 0o666)
		if err != nil {
			return nil, err
		}
		if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, nil
		}
		f.Close()
	} else if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s is not a regular file: remove it", path)
}

// sameFile reports whether a path names an open regular file, and not a link to it.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && a.Mode().IsRegular() && os.SameFile(a, b)
}

// reopen cuts the file of an interrupted job after its last whole piece. It returns nil if
// the journal has none.
func reopen(out, job string, f *os.File) (*partial, []piece, error) {
	jf, err := openBeside(journalPath(out), os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	defer jf.Close()
	r := bufio.NewReader(jf)
	line, err := readLine(r)
	var before string
	if err == io.EOF || err == nil && !parseLine(line, &before) {
		return nil, nil, nil // interrupted before the first line was written
	}
	if err != nil {
		return nil, nil, err
	}
	if before != job {
		return nil, nil, fmt.Errorf("%s was written by another job: %s; now: %s. Start over without resuming",
			partialPath(out), before, job)
	}
	var done []piece
	end := int64(0)
	for {
		line, err := readLine(r)
		var p piece
		if err != nil || !parseLine(line, &p) || p.End < end {
			break
		}
		sum := crc32.New(castagnoli)
		if n, err := io.Copy(sum, io.NewSectionReader(f, end, p.End-end)); err != nil || n != p.End-end ||
			sum.Sum32() != p.CRC {
			break // lost in the interruption, with all that follow
		}
		done, end = append(done, p), p.End
	}
	if err = f.Truncate(end); err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, nil, err
	}
	return &partial{f: f, size: end}, done, nil
}

func (j *journal) append(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(j.f, "%08x %s\n", crc32.Checksum(b, castagnoli), b)
	}
	if _, ok := v.(piece); ok && err == nil {
		j.pieces++
	}
	return err
}

// parseLine decodes a line of a journal. It reports whether the line has its checksum.
func parseLine(line []byte, v any) bool {
	sum, text, ok := bytes.Cut(line, []byte(" "))
	n, err := strconv.ParseUint(string(sum), 16, 32)
	return ok && err == nil && uint32(n) == crc32.Checksum(text, castagnoli) && json.Unmarshal(text, v) == nil
}

// finish gives the file its name and removes the journal. It fails if the file has been replaced.
// The next job for the file begins when it has its name, so the journal is removed before.
func finish(out string, p *partial, j *journal) error {
	err := p.f.Sync()
	if err == nil && !sameFile(p.f, partialPath(out)) {
		err = fmt.Errorf("%s has been replaced or removed while it was written", partialPath(out))
	}
	if err == nil {
		err = keepMode(p.f, out, 0)
	}
	j.f.Close()
	var lines []byte
	if err == nil {
		lines, err = os.ReadFile(j.path)
	}
	if err == nil {
		err = os.Remove(j.path)
	}
	removed := err == nil
	if runtime.GOOS == "windows" { // which renames no open file
		err = errors.Join(err, p.f.Close())
	}
	if err == nil {
		err = os.Rename(partialPath(out), out)
	}
	if err != nil && removed { // so that the job can be resumed
		err = errors.Join(err, os.WriteFile(j.path, lines, 0o666))
	}
	if runtime.GOOS != "windows" {
		err = errors.Join(err, p.f.Close())
	}
	return err
}
