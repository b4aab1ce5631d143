package serve

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/serve/inference"
)

// headerLength is the header that says where the JSON ends and the binary data begins.
const headerLength = "Inference-Header-Content-Length"

// extensions lists the protocol's extensions that both REST and gRPC always support.
var extensions = []string{"classification", "model_repository", "model_repository(unload_dependents)",
	"schedule_policy", "model_configuration", "sequence", "trace", "logging",
	"binary_tensor_data", "parameters", "statistics"}

type handler func(http.ResponseWriter, *http.Request) error

// Handler returns the REST side of the protocol, under /v2, the probe /healthz and the status page.
// The http.Server that it runs in should have timeouts: see HTTPServer.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	styled := func(method, pattern string, h handler, style errorStyle) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			allowed := strings.Split(method, ", ")
			if !slices.Contains(allowed, r.Method) && (allowed[0] != http.MethodGet || r.Method != http.MethodHead) {
				w.Header().Set("Allow", method)
				writeJSON(w, http.StatusMethodNotAllowed,
					errorJSON{fmt.Sprintf("method %.16q is not allowed, want %s", r.Method, method)})
				return
			}
			s.serveHTTP(w, r, h, style)
		})
	}
	route := func(method, pattern string, h handler) { styled(method, pattern, h, plainError) }
	authorized := func(h handler) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			if err := s.authorize(r.Header.Get("Authorization")); err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				return err
			}
			if c, ok := r.Context().Value(connKey{}).(*restConn); ok {
				c.authorized()
			}
			return h(w, r)
		}
	}
	private := func(method, pattern string, h handler) { route(method, pattern, authorized(h)) }
	const get, post = http.MethodGet, http.MethodPost
	// Triton's clients read only the status, KServe's read the body.
	probe := func(member string, ok func() bool) handler {
		return func(w http.ResponseWriter, _ *http.Request) error {
			status := http.StatusOK
			if !ok() {
				status = http.StatusServiceUnavailable
			}
			writeJSON(w, status, map[string]bool{member: status == http.StatusOK})
			return nil
		}
	}
	for _, path := range []string{"/status/page.css", "/status/page.js"} {
		route(get, path, getPage)
	}
	root := authorized(s.postRoot)
	styled(get+", "+post, "/{$}", func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == post {
			return root(w, r)
		}
		return getPage(w, r)
	}, teiError)
	styled(post, "/models/{model}", root, teiError)
	s.routeTexts(func(method, pattern string, h handler, style errorStyle) {
		styled(method, pattern, authorized(h), style)
	})
	private(get, "/status/errors", s.getErrors)
	for _, path := range []string{"/healthz", "/health"} {
		route(get, path, probe("ready", s.Ready))
	}
	route(get, "/v2/health/live", probe("live", func() bool { return true }))
	route(get, "/v2/health/ready", probe("ready", s.Ready))
	private(get, "/v2", s.getMetadata)
	private(get, "/v2/{$}", s.getMetadata)
	private(get, "/v2/models/stats", s.getStats)
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		private(get, model, s.getModel)
		private(get, model+"/ready", s.getModelReady)
		private(get, model+"/config", s.getConfig)
		private(get, model+"/stats", s.getStats)
		private(post, model+"/infer", s.postInfer)
	}
	control := func(method, pattern string, h handler) {
		private(method, pattern, func(w http.ResponseWriter, r *http.Request) error {
			if err := checkContentType(r); err != nil {
				return err
			}
			return h(w, r)
		})
	}
	control(post, "/v2/repository/index", s.postIndex)
	control(post, "/v2/repository/models/{model}/load", s.postControl(true))
	control(post, "/v2/repository/models/{model}/unload", s.postControl(false))
	s.routeMemory(control)
	s.routeSettings(control)
	for _, pattern := range []string{"/v2/models/{model}/generate", "/v2/models/{model}/generate_stream"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.serveHTTP(w, r, func(http.ResponseWriter, *http.Request) error {
				return errorf(Unsupported, "generate requests are not supported")
			}, plainError)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, errorJSON{fmt.Sprintf("no such resource: %.200q", r.URL.Path)})
	})
	return s.metered(s.guard(mux, s.opts.Hosts))
}

// jsonCost is the memory of a byte of a message whose JSON is made: an empty message in a list
// has two bytes, and its JSON all of its fields.
const jsonCost = 200

type errorJSON struct {
	Error string `json:"error"`
}

// serveHTTP calls a handler and writes its error. A panic fails the request only.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request, h handler, style errorStyle) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.log.Error("a request panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			writeJSON(w, http.StatusInternalServerError, errorJSON{"internal error; the log has the details"})
		}
	}()
	err := h(w, r)
	if err == nil {
		return
	}
	e := classify(err)
	if e.Code == Overloaded || e.Code == Unavailable && s.draining.Load() {
		w.Header().Set("Retry-After", "1")
	}
	if e.Code == Internal {
		s.log.Error("a request failed", "path", r.URL.Path, "error", err)
	}
	status, body := style(e)
	writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	writeText(w, status, marshal(v))
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values of the server have a JSON form
	}
	return b
}

func writeText(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

// describe writes the JSON of a value whose size depends on the models. The text counts until the
// client has taken it. One of a kind is made at a time, while mu is held, because the memory for
// that may be known only afterwards; value reserves what it knows before.
func (s *Server) describe(w http.ResponseWriter, mu *sync.Mutex, value func(*reservation) (any, error)) error {
	memory := &reservation{s: s}
	defer memory.release()
	b, err := func() ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		v, err := value(memory)
		if err != nil {
			return nil, err
		}
		b := marshal(v)
		return b, memory.become(int64(len(b)))
	}()
	if err == nil {
		writeText(w, http.StatusOK, b)
	}
	return err
}

// messageValue returns a message of any size for its JSON, whose memory it reserves.
func messageValue(m proto.Message, memory *reservation) (any, error) {
	if err := memory.grow(jsonCost * int64(proto.Size(m))); err != nil {
		return nil, err
	}
	return messageJSON(m), nil
}

// authorize checks the header Authorization. All tokens are compared, in constant time.
func (s *Server) authorize(header string) error {
	if len(s.opts.Tokens) == 0 {
		return nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	sum := sha256.Sum256([]byte(token))
	ok := 0
	for _, t := range s.opts.Tokens {
		want := sha256.Sum256([]byte(t))
		ok |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	if ok == 0 || !strings.EqualFold(scheme, "Bearer") {
		return errorf(Unauthenticated, "the request needs a valid bearer token")
	}
	return nil
}

func (s *Server) postInfer(w http.ResponseWriter, hr *http.Request) error {
	received := time.Now()
	done, err := s.admit()
	if err != nil {
		return err
	}
	defer done()
	memory := &reservation{s: s}
	defer memory.release()
	ctx, cancel := s.deadline(s.callerTrace(hr.Context(), propagation.HeaderCarrier(hr.Header)))
	defer cancel()
	r, err := s.receive(w, hr.WithContext(ctx), memory)
	if err != nil {
		s.undecoded(hr.PathValue("model"), hr.PathValue("version"), received, err)
		return err
	}
	r.received, r.memory = received, memory
	resp, err := s.infer(ctx, r)
	if err != nil {
		return err
	}
	defer resp.release()
	if len(r.outputs) == 0 && r.params["binary_data_output"] == true {
		for i := range resp.outputs {
			resp.outputs[i].binary = true
		}
	}
	if err := memory.grow(resp.cost()); err != nil {
		return err
	}
	head, parts, err := encodeInfer(resp)
	if err != nil {
		return err
	}
	return writeInfer(w, hr, head, parts, memory)
}

// receive reads and decodes an inference request.
func (s *Server) receive(w http.ResponseWriter, hr *http.Request, memory *reservation) (*request, error) {
	data, err := s.body(w, hr, memory)
	if err != nil {
		return nil, err
	}
	header, binary := data, []byte(nil)
	if h := hr.Header.Get(headerLength); h != "" {
		n, err := strconv.ParseUint(h, 10, 63)
		if err != nil {
			return nil, errorf(InvalidArgument, "header %s is %.32q, want a number of bytes", headerLength, h)
		}
		if n > uint64(len(data)) {
			return nil, errorf(InvalidArgument, "header %s is %d, but the body has %d bytes", headerLength, n,
				len(data))
		}
		header, binary = data[:n], data[n:]
	}
	r, err := decodeInfer(hr.Context(), header, binary, memory)
	if err != nil {
		return nil, invalid(err)
	}
	return r, r.address(hr.PathValue("model"), hr.PathValue("version"))
}

// address sets the model and version from the path. If the body names them too, they must be equal.
func (r *request) address(model, version string) error {
	if r.model != "" && r.model != model || r.version != "" && version != "" && r.version != version {
		return errorf(InvalidArgument, "the body is for model %s, version %s, but the path for %s, version %s",
			quote(r.model), quote(r.version), quote(model), quote(version))
	}
	r.model = model
	if version != "" {
		r.version = version
	}
	return nil
}

// writeInfer writes a response, compressed if the client asks for it and it is not tiny.
func writeInfer(w http.ResponseWriter, r *http.Request, head []byte, parts [][]byte, memory *reservation) error {
	size := len(head)
	for _, p := range parts {
		size += len(p)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if len(parts) > 0 {
		h.Set("Content-Type", "application/octet-stream")
		h.Set(headerLength, strconv.Itoa(len(head)))
	}
	var out io.Writer = w
	h.Set("Vary", "Accept-Encoding")
	if enc := accepted(r.Header.Get("Accept-Encoding")); enc != "" && size >= 1024 && memory.grow(deflateCost) == nil {
		h.Set("Content-Encoding", enc)
		var z io.WriteCloser
		var err error
		if enc == "gzip" {
			z, err = gzip.NewWriterLevel(w, gzip.BestSpeed)
		} else {
			z, err = zlib.NewWriterLevel(w, zlib.BestSpeed)
		}
		if err != nil {
			return err
		}
		defer z.Close()
		out = z
	} else {
		h.Set("Content-Length", strconv.Itoa(size))
	}
	for _, p := range append([][]byte{head}, parts...) {
		if _, err := out.Write(p); err != nil {
			return nil // the client has gone, and the status is sent
		}
	}
	return nil
}

// accepted returns the compression that a header Accept-Encoding asks for, or "".
func accepted(header string) string {
	for item := range strings.SplitSeq(header, ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(item), ";")
		if q = strings.ReplaceAll(q, " ", ""); q == "q=0" || strings.HasPrefix(q, "q=0.0") {
			continue
		}
		if name == "gzip" || name == "deflate" {
			return name
		}
	}
	return ""
}

func (s *Server) getMetadata(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, messageJSON(s.serverMetadata()))
	return nil
}

func (s *Server) serverMetadata() *inference.ServerMetadataResponse {
	l := slices.Clone(extensions)
	if s.regions.folder != "" {
		l = append(l, "system_shared_memory")
	}
	return &inference.ServerMetadataResponse{Name: s.opts.Name, Version: onward.Version(), Extensions: l}
}

func (s *Server) getModel(w http.ResponseWriter, r *http.Request) error {
	v, err := s.acquire(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	defer v.release()
	return s.describe(w, &s.describing, func(memory *reservation) (any, error) {
		return messageValue(v.metadata(s.served(v.model)), memory)
	})
}

func (s *Server) getModelReady(w http.ResponseWriter, r *http.Request) error {
	v, err := s.acquire(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	defer v.release()
	if err := s.ready(v); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"name": v.model, "ready": true})
	return nil
}

func (s *Server) getConfig(w http.ResponseWriter, r *http.Request) error {
	v, err := s.acquire(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	defer v.release()
	return s.describe(w, &s.describing, func(memory *reservation) (any, error) {
		return messageValue(v.config, memory)
	})
}

func (s *Server) getStats(w http.ResponseWriter, r *http.Request) error {
	return s.describe(w, &s.describing, func(memory *reservation) (any, error) {
		m, err := s.statistics(r.PathValue("model"), r.PathValue("version"))
		if err != nil {
			return nil, err
		}
		return messageValue(m, memory)
	})
}

// statistics returns the statistics of a version, of all versions of a model if number is "",
// or of all models.
func (s *Server) statistics(model, number string) (*inference.ModelStatisticsResponse, error) {
	m := new(inference.ModelStatisticsResponse)
	if model != "" { // an error for unknown ones
		v, err := s.acquire(model, number)
		if err != nil {
			return nil, err
		}
		v.release()
	}
	for _, v := range s.all() {
		if (model == "" || v.model == model) && (number == "" || strconv.FormatInt(v.number, 10) == number) {
			m.ModelStats = append(m.ModelStats, v.statistics())
		}
		v.release()
	}
	return m, nil
}

func (s *Server) postIndex(w http.ResponseWriter, r *http.Request) error {
	memory := &reservation{s: s}
	defer memory.release()
	ready := false
	members := []string{"ready"}
	if err := s.readJSON(w, r, memory, func(j *jsonReader) error {
		return j.object(members, func(int) error {
			if ready = j.literal("true"); !ready && !j.literal("false") && !j.null() {
				return j.wrong("a bool")
			}
			return nil
		})
	}); err != nil {
		return err
	}
	return s.describe(w, &s.listing, func(*reservation) (any, error) {
		l, err := s.index(ready)
		out := []any{}
		for _, m := range l {
			x := map[string]string{"name": m.Name}
			for k, v := range map[string]string{"version": m.Version, "state": m.State, "reason": m.Reason} {
				if v != "" {
					x[k] = v
				}
			}
			out = append(out, x)
		}
		return out, err
	})
}

func (s *Server) postControl(load bool) handler {
	members := []string{"parameters"}
	return func(w http.ResponseWriter, r *http.Request) error {
		memory := &reservation{s: s}
		defer memory.release()
		var params map[string]any
		if err := s.readJSON(w, r, memory, func(j *jsonReader) error {
			return j.object(members, func(int) (err error) {
				params, err = j.parameters()
				return err
			})
		}); err != nil {
			return err
		}
		return s.control(r.Context(), r.PathValue("model"), params, load, memory)
	}
}

// control loads or unloads a model for a client.
func (s *Server) control(ctx context.Context, name string, params map[string]any, load bool,
	memory *reservation) error {
	if !s.opts.AllowModelControl {
		return errorf(Unavailable,
			"explicit model load / unload is not allowed: the server is started without model control")
	}
	var override *inference.ModelConfig
	var steps []string // models to unload with an ensemble
	for k, v := range params {
		text, isText := v.(string)
		switch {
		case load && k == "config" && isText:
			if len(text) > maxConfigSize {
				return errorf(InvalidArgument, "failed to load '%.255s': %w", name,
					tooLong("config", len(text), maxConfigSize))
			}
			if err := memory.grow(configCost * int64(len(text))); err != nil {
				return err
			}
			c, err := parseConfigJSON([]byte(text))
			if err != nil {
				return errorf(InvalidArgument, "failed to load '%.255s': %w", name, err)
			}
			override = c
		case load && strings.HasPrefix(k, "file:"): // the status and the beginning are Triton's
			return errorf(Internal, "failed to load '%.255s', failed to poll from model repository: files in a "+
				"request are not supported", name)
		case !load && k == "unload_dependents" && v == false:
		case !load && k == "unload_dependents" && v == true:
			steps = s.stepsOf(name)
		default:
			return errorf(InvalidArgument, "parameter %.64q is not supported", k)
		}
	}
	// A client that goes away does not end the load, but Close does.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	if load {
		return s.load(ctx, name, override)
	}
	err := s.unload(ctx, name)
	for _, m := range steps {
		err = errors.Join(err, s.unload(ctx, m))
	}
	return err
}
