package tables

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
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
// the job and a line per piece.
type journal struct {
	path   string
	f      *os.File
	pieces int // in the journal
}

func partialPath(out string) string { return out + ".partial" }
func journalPath(out string) string { return out + ".journal" }

// startFile creates the file beside the result and its journal, or opens those of an
// interrupted job. job describes everything that determines the bytes of the result.
func startFile(out, job string, resume bool) (p *partial, j *journal, done []piece, err error) {
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return nil, nil, nil, fmt.Errorf("%s is a folder", out)
	}
	if resume {
		p, done, err = reopen(out, job)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil, err
		}
	}
	if p == nil {
		f, err := os.OpenFile(partialPath(out), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, nil, nil, err
		}
		p, done = &partial{f: f}, nil
	}
	// Rewrite the journal: its last line may be cut.
	f, err := os.OpenFile(journalPath(out), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		p.f.Close()
		return nil, nil, nil, err
	}
	j = &journal{path: journalPath(out), f: f}
	err = j.append(job)
	for _, d := range done {
		if err == nil {
			err = j.append(d)
		}
	}
	if err != nil {
		p.f.Close()
		f.Close()
		return nil, nil, nil, err
	}
	return p, j, done, nil
}

// reopen opens the file of an interrupted job and cuts it after its last whole piece. It
// returns no file if none has been written.
func reopen(out, job string) (*partial, []piece, error) {
	jf, err := os.Open(journalPath(out))
	if err != nil {
		return nil, nil, err
	}
	defer jf.Close()
	r := bufio.NewReader(jf)
	line, err := readLine(r)
	var before string
	if err == io.EOF || err == nil && json.Unmarshal(line, &before) != nil {
		return nil, nil, nil // interrupted before the first line was written
	}
	if err != nil {
		return nil, nil, err
	}
	if before != job {
		return nil, nil, fmt.Errorf("%s was written by another job: %s; now: %s. Start over without resuming", partialPath(out), before, job)
	}
	f, err := os.OpenFile(partialPath(out), os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	var done []piece
	end := int64(0)
	for {
		line, err := readLine(r)
		var p piece
		if err != nil || json.Unmarshal(line, &p) != nil || p.End < end {
			break
		}
		sum := crc32.New(castagnoli)
		if n, err := io.Copy(sum, io.NewSectionReader(f, end, p.End-end)); err != nil || n != p.End-end || sum.Sum32() != p.CRC {
			break // lost in the interruption, with all that follow
		}
		done, end = append(done, p), p.End
	}
	if err = f.Truncate(end); err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &partial{f: f, size: end}, done, nil
}

func (j *journal) append(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = j.f.Write(append(b, '\n'))
	}
	if _, ok := v.(piece); ok && err == nil {
		j.pieces++
	}
	return err
}

// finish gives the file its name and removes the journal.
func finish(out string, p *partial, j *journal) error {
	err := p.f.Sync()
	if e := p.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(partialPath(out), out)
	}
	if err != nil {
		return err
	}
	j.f.Close()
	return os.Remove(j.path)
}
