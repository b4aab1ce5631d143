package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

//go:embed kserve_server.py
var kserveScript string

// server is a running model server.
type server struct {
	http, grpc string // addresses
	command    *exec.Cmd
	ended      chan struct{}
}

func (s *server) start(logs io.WriteCloser) error {
	s.command.Stdout, s.command.Stderr = logs, logs
	if err := s.command.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		s.command.Wait()
		logs.Close()
		close(s.ended)
	}()
	return nil
}

func (s *server) stop() {
	s.command.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(5*time.Second, func() { s.command.Process.Kill() })
	<-s.ended
	kill.Stop()
}

// memory returns the resident memory of the server in MB.
func (s *server) memory() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "VmRSS:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc has no VmRSS")
}

func startOnward(ctx context.Context, exe, model string, args ...string) (*server, error) {
	return startLogged(exec.CommandContext(ctx, exe,
		append([]string{"serve", model, "--http", ":0", "--grpc", ":0", "--metrics", ""}, args...)...))
}

// startLogged starts a server that logs its addresses as onward serve does.
func startLogged(c *exec.Cmd) (*server, error) {
	s := &server{command: c}
	logs, w := io.Pipe()
	if err := s.start(w); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(logs)
	var text bytes.Buffer
	for lines.Scan() {
		text.Write(append(lines.Bytes(), '\n'))
		var r struct{ Msg, Protocol, Address string }
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Msg == "listening" {
			switch r.Protocol {
			case "http":
				s.http = r.Address
			case "grpc":
				s.grpc = r.Address
			}
		}
		if s.http != "" && s.grpc != "" {
			go io.Copy(io.Discard, logs)
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s ended:\n%s", c, &text)
}

func startKServe(ctx context.Context, m *model) (*server, error) {
	ports := make([]string, 2)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		ports[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		l.Close()
	}
	s := &server{http: "127.0.0.1:" + ports[0], grpc: "127.0.0.1:" + ports[1]}
	s.command = exec.CommandContext(ctx, *python, "-c", kserveScript, "--http_port", ports[0], "--grpc_port", ports[1],
		"--model_name", m.name, "--model", m.path, "--enable_docs_url", "False", "--enable_latency_logging", "False")
	var logs text
	if err := s.start(&logs); err != nil {
		return nil, err
	}
	for range 600 {
		r, err := (&http.Client{Timeout: time.Second}).Get("http://" + s.http + "/v2/models/" + m.name + "/ready")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return s, nil
			}
		}
		select {
		case <-s.ended:
			return nil, fmt.Errorf("the KServe model server ended:\n%s", logs.b.Bytes())
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.stop()
	return nil, fmt.Errorf("the KServe model server is not ready after a minute:\n%s", logs.b.Bytes())
}

// text keeps what a server prints. It is read after the server has ended.
type text struct{ b bytes.Buffer }

func (t *text) Write(b []byte) (int, error) { return t.b.Write(b) }

func (t *text) Close() error { return nil }

// clients connects n clients. The caller closes them.
func (s *server) clients(protocol string, m *model, n int) ([]*client, error) {
	l := make([]*client, n)
	for i := range l {
		if protocol != "gRPC" {
			l[i] = restClient(s.http, m)
			continue
		}
		c, err := grpcClient(s.grpc, m)
		if err != nil {
			return nil, err
		}
		l[i] = c
	}
	return l, nil
}

func (s *server) load(ctx context.Context, protocol string, m *model, n int, d time.Duration) (*measured, error) {
	l, err := s.clients(protocol, m, n)
	if err != nil {
		return nil, err
	}
	defer closeAll(l)
	return load(ctx, l, d)
}

// count sends a number of requests and returns how many failed.
func (s *server) count(ctx context.Context, protocol string, m *model, n, requests int) (int, error) {
	l, err := s.clients(protocol, m, n)
	if err != nil {
		return 0, err
	}
	defer closeAll(l)
	var left, failed atomic.Int64
	left.Store(int64(requests))
	var wait sync.WaitGroup
	for _, c := range l {
		wait.Go(func() {
			for ctx.Err() == nil && left.Add(-1) >= 0 {
				if err := c.infer(ctx); err != nil && failed.Add(1) == 1 {
					fmt.Fprintln(os.Stderr, "first error:", err)
				}
			}
		})
	}
	wait.Wait()
	return int(failed.Load()), ctx.Err()
}

func closeAll(l []*client) {
	for _, c := range l {
		c.close()
	}
}
