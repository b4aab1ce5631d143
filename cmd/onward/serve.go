//go:build !core

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/otlp"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/serve"
)

// maxTokens bounds the size of a file of bearer tokens.
const maxTokens = 1 << 20

type serveOptions struct {
	listen              string
	http, grpc, metrics string // addresses; "" turns one off
	provider            string
	own                 session.ProviderOptions
	threads             int
	precision           onward.Precision
	poll                time.Duration
	readTimeout         time.Duration
	drain, drainDelay   time.Duration
	drained             time.Time // when --drain ends; zero before the shutdown
	maxMemory           int64
	certFile, keyFile   string
	clientCA, tokenFile string
	verbose             bool
	collector           string // of spans; "": none
	hosts               []string

	server serve.Options
}

func init() { large = append(large, serveCommand) }

func serveCommand() *cobra.Command {
	o := serveOptions{}
	c := &cobra.Command{
		Use:   "serve REPO|MODEL|FOLDER…",
		Short: "Serve models over REST and gRPC (Open Inference Protocol v2, OpenAI, TEI)",
		Long: `Serve models over REST and gRPC: the Open Inference Protocol v2 of KServe, with
Triton's extensions.

REPO is a folder with a folder for each model: REPO/MODEL/VERSION/model.onnx, and
optionally REPO/MODEL/config.pbtxt. A model without versions, REPO/MODEL/model.onnx or
REPO/MODEL.onnx, is version 1. A MODEL file is served under its name without .onnx,
as version 1.

FOLDER is a model folder as Hugging Face has it, for vectors, ranks or labels of texts. It
has the endpoints of OpenAI (/v1/embeddings), of Cohere and Jina (/v1/rerank) and of Text
Embeddings Inference (/embed, /rerank, /predict and others), and inputs of strings in the
Open Inference Protocol. A repository can hold model folders, too.

An address without a host, such as :8000, uses the host of --listen. Log records are
JSON, on stderr. After SIGTERM, the server ends when the requests in progress have ended.`,
		Example: `  onward serve models/
  onward serve digits.onnx --http :9000 --grpc ""
  onward serve all-MiniLM-L6-v2
  onward serve models/ --listen 0.0.0.0 --token-file tokens --tls-cert cert.pem --tls-key key.pem
  curl 127.0.0.1:8000/v2/models/digits`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signal.Ignore(syscall.SIGPIPE) // the reader of the log may end before the server
			return o.run(cmd.Context(), args, cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.server.Name, "id", "", "name of the server in its metadata (default onward)")
	f.StringVar(&o.listen, "listen", "127.0.0.1", "host of addresses that have none; 0.0.0.0 for all interfaces")
	f.StringVar(&o.http, "http", ":8000", `address of REST; "" turns it off`)
	f.StringVar(&o.grpc, "grpc", ":8001", `address of gRPC; "" turns it off`)
	f.StringVar(&o.metrics, "metrics", ":8002", `address of Prometheus metrics, under /metrics; "" turns them off`)
	session.ProviderFlag(f, &o.provider)
	session.OptionFlag(f, &o.own)
	session.ThreadsFlag(f, &o.threads)
	session.PrecisionFlag(f, &o.precision)
	f.DurationVar(&o.poll, "poll", 0, "how often to look for changed models, such as 15s (default never)")
	f.BoolVar(&o.server.AllowModelControl, "model-control", false,
		"let clients load and unload models of the repository")
	f.BoolVar(&o.server.AllowSharedMemory, "shared-memory", false,
		"let clients on this machine pass tensors in POSIX shared memory (/dev/shm)")
	f.BoolVar(&o.server.KeepGoing, "keep-going", false, "start even if models cannot be loaded")
	f.IntVar(&o.server.MaxBatchSize, "max-batch", 0, "batch requests for models without configuration up to this size")
	f.IntVar(&o.server.MaxBatchTokens, "max-batch-tokens", 0,
		"tokens of the texts that run together on a model folder (default 2048)")
	f.IntVar(&o.server.MaxQueue, "max-queue", 0, "requests that may wait for a model (default 1024)")
	f.IntVar(&o.server.MaxRuns, "max-runs", 0,
		"runs at the same time, shared fairly by the models (default number of CPUs)")
	f.IntVar(&o.server.Instances, "instances", 0,
		"runs of a model at the same time, without instance_group (default number of CPUs; 1 with batches)")
	f.IntVar(&o.server.MaxRequests, "max-requests", 0, "requests in progress (default 4096)")
	f.Int64Var(&o.server.MaxBody, "max-body", 0, "size of a request in bytes (default 64 MiB)")
	f.Int64Var(&o.maxMemory, "max-memory", 0,
		"memory of one run in bytes (default half of the machine's or of the control group's)")
	f.Int64Var(&o.server.TotalMemory, "total-memory", 0,
		"memory of all requests and runs together in bytes (default half of the machine's or of the control group's)")
	f.DurationVar(&o.server.Timeout, "timeout", 0, "longest time of a request (default no limit)")
	f.DurationVar(&o.readTimeout, "read-timeout", time.Minute, "longest time for a request to arrive")
	f.StringSliceVar(&o.hosts, "allowed-host", nil, `names of the server in requests over REST and for metrics, besides localhost and IP addresses; "*" for all (default: all on other interfaces than loopback)`)
	f.DurationVar(&o.drain, "drain", 30*time.Second, "longest time that SIGTERM waits for requests in progress")
	f.DurationVar(&o.drainDelay, "drain-delay", 0, "time between reporting not ready and refusing connections")
	f.StringVar(&o.certFile, "tls-cert", "", "certificate file (PEM); turns TLS on for REST and gRPC")
	f.StringVar(&o.keyFile, "tls-key", "", "key file of the certificate (PEM)")
	f.StringVar(&o.clientCA, "tls-client-ca", "",
		"file of the authorities (PEM) that sign client certificates, which are then required")
	f.StringVar(&o.tokenFile, "token-file", "", "file of bearer tokens, one per line; requests then need one")
	f.StringVar(&o.collector, "otlp-endpoint", "",
		"OpenTelemetry collector that gets spans by OTLP over HTTP, such as http://127.0.0.1:4318")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log debug records")
	return c
}

// heapBallast is the size of an array that is never read or written, and so takes no memory of
// the machine. The garbage collector runs when the heap has doubled: with the array, after as
// many bytes of requests more. Without it, the heap of a server of small models doubles with
// every few hundred requests.
const heapBallast = 16 << 20

// spanTime is how long the spans of the last requests may take to export after --drain.
const spanTime = time.Second

// run serves until ctx is done.
func (o *serveOptions) run(ctx context.Context, args []string, logs io.Writer) error {
	if o.maxMemory < 0 || o.poll < 0 || o.readTimeout <= 0 || o.drain < 0 || o.drainDelay < 0 {
		return cli.Usagef(
			"--max-memory is %d, --poll %s, --read-timeout %s, --drain %s, --drain-delay %s: want positive numbers",
			o.maxMemory, o.poll, o.readTimeout, o.drain, o.drainDelay)
	}
	defer runtime.KeepAlive(make([]byte, heapBallast))
	queue := newLogQueue(logs)
	defer queue.close()
	so, err := session.Options(o.provider, o.threads, o.own)
	if err != nil {
		return err
	}
	so.Limits.MaxMemory, so.Precision = o.maxMemory, o.precision
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewJSONHandler(text.JSONLines(queue), &slog.HandlerOptions{Level: level}))
	so.Logger = log
	o.server.Session, o.server.Logger = *so, log
	repo, err := o.models(args)
	if err != nil {
		return err
	}
	config, err := o.tls()
	if err != nil {
		return err
	}
	if o.server.Tokens, err = readTokens(o.tokenFile); err != nil {
		return err
	}
	if o.collector != "" {
		p, err := otlp.New(ctx, o.collector, o.server.Name, log)
		if err != nil {
			return err
		}
		defer func() { // after the last request
			ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), o.spansEnd(time.Now()))
			defer cancel()
			if err := p.Shutdown(ctx); err != nil {
				log.Warn("spans are left that could not be exported", "error", err)
			}
		}()
		o.server.Tracer = p
	}
	if o.server.Hosts, err = o.allowedHosts(o.http); err != nil {
		return err
	}
	if o.server.MetricsHosts, err = o.allowedHosts(o.metrics); err != nil {
		return err
	}
	o.server.ReadTimeout = o.readTimeout
	s, err := serve.New(ctx, repo, &o.server)
	if err != nil {
		return err
	}
	if err := limitGarbage(s.Memory()); err != nil {
		return errors.Join(fmt.Errorf("--total-memory: %w", err), s.Close())
	}
	memory.DropCode()
	return errors.Join(o.serve(ctx, s, config, log), s.Close())
}

// spansEnd returns until when the shutdown exports spans: requests in progress and spans share
// --drain.
func (o *serveOptions) spansEnd(now time.Time) time.Time {
	return cmp.Or(o.drained, now.Add(o.drain)).Add(spanTime)
}

// limitGarbage makes the garbage collector run before the heap exceeds the memory of all requests,
// unless GOMEMLIMIT says otherwise. By itself it waits until the heap has doubled. An eighth of the
// memory is for what requests leave behind until the collector has found it, which takes long if
// other processes use the processors.
func limitGarbage(b *onward.MemoryBudget) error {
	limit := b.Limit()
	if limit == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	uncounted := max(0, int64(m.HeapAlloc)-b.Used()) // by the budget, such as packed weights
	debug.SetMemoryLimit(limit + uncounted)
	return b.Reserve(limit / 8)
}

// models sorts the arguments into a repository and model files.
func (o *serveOptions) models(args []string) (repo string, err error) {
	for _, a := range args {
		info, err := os.Stat(a)
		switch {
		case err == nil && info.IsDir() && serve.IsModelFolder(a):
			name, err := folderName(a)
			if err != nil {
				return "", err
			}
			o.server.Models = append(o.server.Models, serve.Model{Name: name, Path: a})
			continue
		case err == nil && info.IsDir():
			if repo != "" {
				return "", cli.Usagef("two repositories, %q and %q: want at most one", repo, a)
			}
			repo = a
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		m := serve.Model{Name: strings.TrimSuffix(filepath.Base(a), ".onnx"), Path: a}
		if err != nil {
			if m.Data, err = datasets.Get(a); err != nil {
				return "", fmt.Errorf("%s is no file, folder or example: %w", a, fs.ErrNotExist)
			}
			m.Path = ""
		}
		o.server.Models = append(o.server.Models, m)
	}
	return repo, nil
}

// folderName returns the name of a model folder. In the cache of huggingface_hub a folder is
// models--OWNER--NAME/snapshots/REVISION.
func folderName(path string) (string, error) {
	path, err := filepath.Abs(path) // "." has a name
	if err != nil {
		return "", err
	}
	if snapshots := filepath.Dir(path); filepath.Base(snapshots) == "snapshots" {
		if model := filepath.Base(filepath.Dir(snapshots)); strings.HasPrefix(model, "models--") {
			return model[strings.LastIndex(model, "--")+2:], nil
		}
	}
	return filepath.Base(path), nil
}

func (o *serveOptions) tls() (*tls.Config, error) {
	if o.certFile == "" && o.keyFile == "" && o.clientCA == "" {
		return nil, nil
	}
	if o.certFile == "" || o.keyFile == "" {
		return nil, cli.Usagef("TLS needs both --tls-cert and --tls-key")
	}
	cert, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"}}
	if o.clientCA != "" {
		pem, err := os.ReadFile(o.clientCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-client-ca: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-client-ca: %s holds no certificate", o.clientCA)
		}
	}
	return c, nil
}

// readTokens reads a file of tokens. Empty lines are left out.
func readTokens(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokens+1))
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	if len(b) > maxTokens {
		return nil, fmt.Errorf("--token-file: %s has more than %d bytes", path, maxTokens)
	}
	var tokens []string
	for line := range bytes.Lines(b) {
		if t := string(bytes.TrimSpace(line)); t != "" {
			tokens = append(tokens, t)
		}
	}
	if tokens == nil { // no token must not mean no authorization
		return nil, fmt.Errorf("--token-file: %s holds no token", path)
	}
	return tokens, nil
}

// address returns an address with the host of --listen if it has none.
func (o *serveOptions) address(a string) (string, error) {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return "", cli.Usagef("address %q: want host:port or :port", a)
	}
	if host == "" {
		host = o.listen
	}
	return net.JoinHostPort(host, port), nil
}

// allowedHosts returns the names that HTTP requests to an address may have, or nil for any: if it
// is of another interface than loopback and no name is given.
func (o *serveOptions) allowedHosts(address string) ([]string, error) {
	if o.hosts != nil || address == "" {
		return o.hosts, nil
	}
	a, err := o.address(address)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(a) // of JoinHostPort
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, nil
	}
	return []string{}, nil
}

// serve runs the servers until ctx is done, and then drains them.
func (o *serveOptions) serve(ctx context.Context, s *serve.Server, config *tls.Config, log *slog.Logger) error {
	failed := make(chan error, 3)
	type server struct {
		what string
		l    net.Listener
		run  func(net.Listener) error
		stop func(context.Context)
	}
	var servers []server
	listen := func(what, address string, run func(net.Listener) error, stop func(context.Context)) error {
		if address == "" {
			return nil
		}
		a, err := o.address(address)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", a)
		if err != nil {
			return err
		}
		log.Info("listening", "protocol", what, "address", l.Addr().String(), "tls", config != nil && what != "metrics")
		servers = append(servers, server{what, l, run, stop})
		return nil
	}
	httpServer := func(h http.Handler, c *tls.Config) (func(net.Listener) error, func(context.Context)) {
		srv := serve.HTTPServer(h, o.readTimeout)
		srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
		srv.TLSConfig = c
		return func(l net.Listener) error {
				l = s.Listener(l)
				if c != nil {
					return srv.ServeTLS(l, "", "")
				}
				return srv.Serve(l)
			}, func(ctx context.Context) {
				if srv.Shutdown(ctx) != nil {
					srv.Close()
				}
			}
	}
	run, stop := httpServer(s.Handler(), config)
	err := listen("http", o.http, run, stop)
	if err == nil {
		opts := s.GRPCOptions()
		if config != nil {
			opts = append(opts, grpc.Creds(s.GRPCCredentials(credentials.NewTLS(config))))
		}
		g := grpc.NewServer(opts...)
		s.Register(g)
		err = listen("grpc", o.grpc, g.Serve, func(ctx context.Context) {
			ended := make(chan struct{})
			go func() {
				g.GracefulStop()
				close(ended)
			}()
			s.CloseMute()
			select {
			case <-ended:
			case <-ctx.Done(): // a connection that has just been accepted may still be mute
				go g.Stop()
				select {
				case <-ended:
				case <-time.After(time.Second):
				}
			}
		})
	}
	if err == nil {
		mux := http.NewServeMux()
		mux.Handle("/metrics", s.MetricsHandler())
		run, stop := httpServer(mux, nil)
		err = listen("metrics", o.metrics, run, stop)
	}
	if err == nil && len(servers) == 0 {
		err = cli.Usagef("--http, --grpc and --metrics are all empty")
	}
	if err == nil { // no server answers before all listen
		for _, s := range servers {
			go func() {
				if err := s.run(s.l); err != nil && !errors.Is(err, http.ErrServerClosed) &&
					!errors.Is(err, grpc.ErrServerStopped) {
					failed <- fmt.Errorf("%s: %w", s.what, err)
				}
			}()
		}
		err = o.wait(ctx, s, failed, log)
	}
	s.Drain()
	if err == nil && o.drainDelay > 0 {
		time.Sleep(o.drainDelay)
	}
	o.drained = time.Now().Add(o.drain)
	end, cancel := context.WithDeadline(context.WithoutCancel(ctx), o.drained)
	defer cancel()
	// No protocol takes connections while another waits for its requests. Metrics are
	// served until the end.
	protocols := slices.DeleteFunc(slices.Clone(servers), func(s server) bool { return s.what == "metrics" })
	for _, s := range protocols {
		s.l.Close()
	}
	var wait sync.WaitGroup
	for _, s := range protocols {
		wait.Go(func() { s.stop(end) })
	}
	wait.Wait()
	for _, s := range servers {
		if s.what == "metrics" {
			s.stop(end)
			s.l.Close()
		}
	}
	log.Info("stopped")
	return err
}

// wait polls the repository until ctx is done or a server fails.
func (o *serveOptions) wait(ctx context.Context, s *serve.Server, failed <-chan error, log *slog.Logger) error {
	var tick <-chan time.Time
	if o.poll > 0 {
		t := time.NewTicker(o.poll)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			log.Info("draining")
			return nil
		case err := <-failed:
			return err
		case <-tick:
			if err := s.Poll(ctx); err != nil {
				log.Warn("the repository could not be read completely", "error", err)
			}
		}
	}
}
