package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onward-ml/onward/onnx"
)

func writerTargets(*attack) []string { return []string{"csv", "jsonl", "parquet", "arrow"} }

// tryWriters starts two jobs of onward map that write the same file, and stops some of them. A job
// that reports success has written the file; nothing else is in it.
func tryWriters(a *attack, format string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(format)))
	dir, err := os.MkdirTemp(a.scratch, "map")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n", 1).Output("y", onnx.Float, "n", 1).Node("Neg", []string{"x"}, []string{"y"})
	model := filepath.Join(dir, "m.onnx")
	if err := onnx.WriteFile(model, b.Must(), nil); err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "out."+format)
	job := func(i int, out string, more ...string) *exec.Cmd {
		c := exec.Command(a.command, append([]string{"map", model, filepath.Join(dir, fmt.Sprint(i, ".csv")), "-o", out,
			"--batch", "100", "--threads", "1"}, more...)...)
		c.Stdout, c.Stderr = new(bytes.Buffer), new(bytes.Buffer)
		return c
	}
	var want [2][]byte
	for i := range want {
		rows := strings.Repeat(fmt.Sprintf("%d\n", i+1), 1+r.IntN(200_000))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".csv")), []byte("x\n"+rows), 0o666); err != nil {
			return nil, err
		}
		alone := filepath.Join(dir, fmt.Sprint("alone", i, ".", format))
		if c := job(i, alone); c.Run() != nil {
			return nil, fmt.Errorf("a job without another fails: %s", c.Stderr)
		}
		if want[i], err = os.ReadFile(alone); err != nil {
			return nil, err
		}
	}
	var jobs [2]*exec.Cmd
	var succeeded [2]bool
	var wait sync.WaitGroup
	for i := range jobs {
		var more []string
		if r.IntN(2) == 0 {
			more = append(more, "--resume")
		}
		jobs[i] = job(i, out, more...)
		if err := jobs[i].Start(); err != nil {
			return nil, err
		}
		wait.Go(func() { succeeded[i] = jobs[i].Wait() == nil })
		delay := time.Duration(r.IntN(300)) * time.Millisecond
		if sig := []os.Signal{nil, nil, os.Kill, os.Interrupt}[r.IntN(4)]; sig != nil {
			wait.Go(func() {
				time.Sleep(delay)
				_ = jobs[i].Process.Signal(sig) // it may have ended
			})
		}
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	wait.Wait()
	got, err := os.ReadFile(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	describe := fmt.Sprintf("success of the jobs: %v; stderr:\n%s\n%s", succeeded, jobs[0].Stderr, jobs[1].Stderr)
	is := [2]bool{bytes.Equal(got, want[0]), bytes.Equal(got, want[1])}
	wrote := func(i int) bool { // a signal may end a job that has written its file, before or after its report
		return succeeded[i] || is[i] && !jobs[i].ProcessState.Exited() ||
			strings.Contains(jobs[i].Stderr.(*bytes.Buffer).String(), " scored, ")
	}
	switch {
	case err != nil && (succeeded[0] || succeeded[1]):
		return nil, fmt.Errorf("a job succeeds without a file; %s", describe)
	case err == nil && !is[0] && !is[1]:
		return nil, fmt.Errorf("the file of %d bytes is that of neither job; %s", len(got), describe)
	case succeeded[0] && !wrote(1) && !is[0], succeeded[1] && !wrote(0) && !is[1]:
		return nil, fmt.Errorf("the file is not that of the job that succeeds; %s", describe)
	}
	// The file of a job that was stopped can be resumed or written again.
	if c := job(0, out, "--resume"); c.Run() != nil {
		if c = job(0, out); c.Run() != nil {
			return nil, fmt.Errorf("a later job fails: %s; %s", c.Stderr, describe)
		}
	}
	return &attempt{}, nil
}

// serverStates lists what a server does when the signal arrives.
var serverStates = []string{"starting", "idle", "requests", "unfinished body", "stream", "reloading", "draining"}

func signalTargets(*attack) []string { return serverStates }

// trySignal sends SIGTERM or SIGINT to a server in one of its states. It ends by itself within its
// drain, and answers all requests that it had received 100 ms before the signal.
func trySignal(a *attack, state string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(state)))
	const drain = 2 * time.Second
	s, err := a.start(state != "starting", "--drain", drain.String(), "--poll", "20ms")
	if err != nil {
		return nil, err
	}
	defer s.kill()
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	pause := time.Duration(r.IntN(200)) * time.Millisecond
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, err)
	}
	// post sends requests that the server has: it answers a later one, whose connection it accepts
	// after theirs.
	post := func(n int) {
		var written sync.WaitGroup
		written.Add(n)
		for range n {
			wait.Go(func() {
				done := sync.OnceFunc(written.Done)
				defer done()
				ctx := httptrace.WithClientTrace(context.Background(),
					&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { done() }})
				if err := s.infer(ctx); err != nil {
					fail(fmt.Errorf("a request before the signal: %w", err))
				}
			})
		}
		written.Wait()
		if err := s.infer(context.Background()); err != nil {
			fail(fmt.Errorf("a request after the others: %w", err))
		}
	}
	switch state {
	case "starting":
		pause /= 4
	case "requests":
		post(1 + r.IntN(50))
		pause += 100 * time.Millisecond
	case "unfinished body":
		for range 1 + r.IntN(5) {
			c, err := net.Dial("tcp", s.http)
			if err != nil {
				return nil, err
			}
			defer c.Close()
			if _, err := c.Write(append(restHeader("Content-Length: 1000"), '{')); err != nil {
				return nil, err
			}
		}
	case "stream":
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		reader, writer := io.Pipe()
		defer writer.Close()
		wait.Go(func() {
			c := s.client(true)
			defer c.CloseIdleConnections()
			_, _, err := send(ctx, c, "http://"+s.grpc+"/inference.GRPCInferenceService/ModelStreamInfer", reader,
				map[string]string{"Content-Type": "application/grpc", "TE": "trailers"})
			if ctx.Err() != nil {
				fail(fmt.Errorf("the stream is open 10 s after the signal: %w", err))
			}
			reader.Close()
		})
	case "reloading":
		stop := time.Now().Add(pause)
		wait.Go(func() {
			c := s.client(false)
			defer c.CloseIdleConnections()
			for time.Now().Before(stop) {
				for _, what := range []string{"unload", "load"} {
					_, _, _ = send(context.Background(), c, "http://"+s.http+"/v2/repository/models/s/"+what, nil, nil)
				}
			}
		})
		post(5)
		pause += 100 * time.Millisecond
	case "draining":
		c, err := net.Dial("tcp", s.http)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		if _, err := c.Write(append(restHeader("Content-Length: 1000"), '{')); err != nil {
			return nil, err
		}
		time.Sleep(pause)
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
	}
	time.Sleep(pause)
	sig := []os.Signal{syscall.SIGTERM, syscall.SIGINT}[r.IntN(2)]
	err = s.stop(sig, drain+10*time.Second)
	wait.Wait()
	if (state == "starting" || state == "draining") && err != nil && !strings.Contains(s.log(), "goroutine ") {
		err = nil // the signal ends the process before its handler is set, or ends the drain at once
	}
	if err = errors.Join(append(failed, err)...); err != nil {
		return nil, fmt.Errorf("%v: %w", sig, err)
	}
	if log := s.log(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		return nil, fmt.Errorf("%v: the server writes\n%s", sig, log)
	}
	return &attempt{}, nil
}
