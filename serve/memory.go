package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/onward-ml/onward/internal/regular"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// sharedMemoryFolder is where Linux keeps POSIX shared memory (shm_overview(7)).
const sharedMemoryFolder = "/dev/shm"

// maxRegions bounds the registered regions, each of which is an open file.
const maxRegions = 1024

// regionCost is what the status of a region takes in JSON, in bytes, with the buffers that grow to
// hold it: names may consist of control characters.
const regionCost = 12 << 10

// regions holds the registered regions of system shared memory.
//
// Tensors are copied with read and write instead of mapping the memory: a client that truncates
// its object would end the server by SIGBUS, and one that writes during a run would change
// inputs that have been checked.
type regions struct {
	folder string // "": shared memory is not allowed
	mu     sync.RWMutex
	m      map[string]*region
}

type region struct {
	name, key    string
	offset, size int64
	file         *os.File
}

// area is a part of a region that holds a tensor.
type area struct {
	region       string
	offset, size uint64
}

// sharedInput is an input of a request whose data is in shared memory.
type sharedInput struct {
	index int // in request.inputs
	area  area
	dtype tensor.DType
	shape []int64
}

// areaOf reads the shared memory parameters of a tensor. It returns nil if the tensor
// has none of them.
func areaOf(params map[string]any) (*area, error) {
	name, given := params["shared_memory_region"]
	a := new(area)
	var ok bool
	if a.region, ok = name.(string); given && (!ok || a.region == "") {
		return nil, fmt.Errorf("parameter \"shared_memory_region\" is %s, want the name of a region", shown(name))
	}
	var err error
	if a.size, err = integer(params, "shared_memory_byte_size"); err != nil {
		return nil, err
	}
	if a.offset, err = integer(params, "shared_memory_offset"); err != nil {
		return nil, err
	}
	if given {
		return a, nil
	}
	if params["shared_memory_byte_size"] != nil || params["shared_memory_offset"] != nil {
		return nil, errors.New("shared memory parameters lack shared_memory_region")
	}
	return nil, nil
}

// check returns an error if shared memory is not allowed.
func (g *regions) check() error {
	if g.folder == "" {
		return errorf(Unsupported, "shared memory is not allowed: the server is started without it")
	}
	return nil
}

// register opens a POSIX shared memory object and names a part of it.
func (g *regions) register(r *inference.SystemSharedMemoryRegisterRequest) (err error) {
	if err := g.check(); err != nil {
		return err
	}
	if r.Name == "" || len(r.Name) > 255 || strings.ContainsRune(r.Name, '/') || !utf8.ValidString(r.Name) {
		return errorf(InvalidArgument, "name of a shared memory region is %.64q, want 1 to 255 bytes of UTF-8 "+
			"without '/'", r.Name)
	}
	key := strings.TrimPrefix(r.Key, "/")
	if err := checkName(key); err != nil {
		return errorf(InvalidArgument, "key of shared memory region '%s': %w", r.Name, err)
	}
	f, err := g.open(key)
	if err != nil {
		return errorf(InvalidArgument, "Unable to open shared memory region: '%s' with key %q: %w", r.Name, r.Key, err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch size := uint64(info.Size()); {
	case !info.Mode().IsRegular():
		return errorf(InvalidArgument, "key %q of shared memory region '%s' is not a shared memory object", r.Key,
			r.Name)
	case r.ByteSize == 0:
		return errorf(InvalidArgument, "shared memory region '%s' has byte_size 0, want at least 1", r.Name)
	case r.Offset > size || r.ByteSize > size-r.Offset:
		return errorf(InvalidArgument,
			"shared memory region '%s' has offset %d and byte_size %d, but its object has %d bytes", r.Name, r.Offset,
			r.ByteSize, size)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.m[r.Name] != nil:
		return errorf(AlreadyExists, "shared memory region '%s' already in manager", r.Name)
	case len(g.m) >= maxRegions:
		return errorf(Overloaded, "%d shared memory regions are registered, the most that the server accepts", len(g.m))
	case g.m == nil:
		g.m = map[string]*region{}
	}
	g.m[r.Name] = &region{name: r.Name, key: r.Key, offset: int64(r.Offset), size: int64(r.ByteSize), file: f}
	return nil
}

// open opens an object of the folder. Links out of the folder, and pipes and devices, whose
// opening could block, are refused.
func (g *regions) open(key string) (*os.File, error) {
	root, err := os.OpenRoot(g.folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(key)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: key, Err: errors.New("not a shared memory object")}
	}
	f, _, err := regular.OpenIn(root, key, os.O_RDWR)
	return f, err
}

// unregister closes a region, or all if name is "". As in Triton, a name that is not registered is
// ignored.
func (g *regions) unregister(name string) error {
	if err := g.check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.m {
		if name == "" || r.name == name {
			r.file.Close() // requests that copy at this moment fail
			delete(g.m, r.name)
		}
	}
	return nil
}

// status returns the registered regions by name, or the one with a name.
func (g *regions) status(name string) ([]*inference.SystemSharedMemoryStatusResponse_RegionStatus, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if name != "" && g.m[name] == nil {
		return nil, errorf(NotFound, "Unable to find system shared memory region: '%.255s'", name)
	}
	l := []*inference.SystemSharedMemoryStatusResponse_RegionStatus{}
	for _, r := range g.m {
		if name == "" || r.name == name {
			l = append(l, &inference.SystemSharedMemoryStatusResponse_RegionStatus{Name: r.name, Key: r.key,
				Offset: uint64(r.offset), ByteSize: uint64(r.size)})
		}
	}
	slices.SortFunc(l, func(a, b *inference.SystemSharedMemoryStatusResponse_RegionStatus) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return l, nil
}

// find returns the file that holds the first n bytes of an area, and their offset in the file.
func (g *regions) find(a *area, n uint64) (*os.File, int64, error) {
	if err := g.check(); err != nil {
		return nil, 0, err
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	r := g.m[a.region]
	if r == nil {
		return nil, 0, errorf(NotFound, "Unable to find shared memory region: '%.255s'", a.region)
	}
	if size := uint64(r.size); a.offset > size || n > size-a.offset {
		return nil, 0, errorf(InvalidArgument,
			"Invalid offset + byte size for shared memory region: '%s': %d + %d is more than its %d bytes", a.region,
			a.offset, n, size)
	}
	return r.file, r.offset + int64(a.offset), nil
}

// load reads the inputs of a request that are in shared memory. Together they have at most limit
// bytes, as other inputs do.
func (g *regions) load(r *request, limit int64, memory *reservation) error {
	total := uint64(0)
	for _, in := range r.shared {
		name := r.inputs[in.index].name
		f, at, err := g.find(&in.area, in.area.size)
		if err != nil {
			return err
		}
		if total += in.area.size; total > uint64(limit) { // no overflow: sizes fit their regions
			return errorf(TooLarge, "the inputs in shared memory have %d bytes, more than the limit of %d", total,
				limit)
		}
		cost := int64(in.area.size)
		if in.dtype == tensor.TypeString {
			cost += rawCost(in.dtype, int(in.area.size)) // besides the bytes
		}
		if err := memory.grow(cost); err != nil {
			return err
		}
		data := alignedBytes(int(in.area.size))
		if _, err := f.ReadAt(data, at); err == io.EOF {
			return errorf(InvalidArgument,
				"input %q: the object of shared memory region '%s' has become smaller than registered",
				name, in.area.region)
		} else if err != nil {
			return regionError("input", name, in.area.region, err)
		}
		t, err := decodeRaw(in.dtype, in.shape, data)
		if err != nil {
			return errorf(InvalidArgument, "input %q: %w", name, err)
		}
		r.inputs[in.index].value = t
	}
	return nil
}

// store writes the outputs of a response that are wanted in shared memory.
func (g *regions) store(r *response, memory *reservation) error {
	for i := range r.outputs {
		o := &r.outputs[i]
		if o.into == nil {
			continue
		}
		if o.value.DType() == tensor.TypeString {
			if err := memory.grow(rawSize(o.value)); err != nil {
				return err
			}
		}
		data := encodeRaw(o.value)
		if n := uint64(len(data)); o.into.size < n {
			return errorf(InvalidArgument, "shared memory size specified with the request for output '%s' (%d bytes) "+
				"should be at least %d bytes to hold the results", o.name, o.into.size, n)
		}
		f, at, err := g.find(o.into, uint64(len(data)))
		if err != nil {
			return err
		}
		if info, err := f.Stat(); err == nil && info.Size() < at+int64(len(data)) {
			return errorf(InvalidArgument,
				"output %q: the object of shared memory region '%s' has become smaller than registered",
				o.name, o.into.region)
		}
		if _, err := f.WriteAt(data, at); err != nil {
			return regionError("output", o.name, o.into.region, err)
		}
		o.into = &area{region: o.into.region, offset: o.into.offset, size: uint64(len(data))}
	}
	return nil
}

// regionError returns the error of reading or writing a tensor in a region.
func regionError(what, tensor, region string, err error) error {
	code := Internal
	if errors.Is(err, os.ErrClosed) { // unregistered meanwhile
		code = NotFound
	}
	return errorf(code, "%s %q: shared memory region '%s': %w", what, tensor, region, err)
}

// routeMemory adds the shared memory extensions to REST.
func (s *Server) routeMemory(route func(method, pattern string, h handler)) {
	for _, prefix := range []string{"/v2/systemsharedmemory", "/v2/systemsharedmemory/region/{region}"} {
		route(http.MethodGet, prefix+"/status", func(w http.ResponseWriter, r *http.Request) error {
			l, err := s.regions.status(r.PathValue("region"))
			if err != nil {
				return err
			}
			memory := &reservation{s: s}
			if err := memory.grow(regionCost * int64(len(l))); err != nil {
				return err
			}
			defer memory.release()
			out := make([]any, len(l))
			for i, m := range l {
				out[i] = messageJSON(m)
			}
			writeJSON(w, http.StatusOK, out)
			return nil
		})
		route(http.MethodPost, prefix+"/unregister", func(_ http.ResponseWriter, r *http.Request) error {
			return s.regions.unregister(r.PathValue("region"))
		})
	}
	route(http.MethodPost, "/v2/systemsharedmemory/region/{region}/register",
		func(w http.ResponseWriter, r *http.Request) error {
			memory := &reservation{s: s}
			defer memory.release()
			req := inference.SystemSharedMemoryRegisterRequest{Name: r.PathValue("region")}
			members := []string{"key", "offset", "byte_size"}
			if err := s.readJSON(w, r, memory, func(j *jsonReader) error {
				return j.object(members, func(i int) (err error) {
					switch members[i] {
					case "key":
						req.Key, err = j.text("key", maxName)
					case "offset":
						req.Offset, err = j.unsigned("offset")
					case "byte_size":
						req.ByteSize, err = j.unsigned("byte_size")
					}
					return err
				})
			}); err != nil {
				return err
			}
			return s.regions.register(&req)
		})
	for _, prefix := range []string{"/v2/cudasharedmemory", "/v2/cudasharedmemory/region/{region}"} {
		route(http.MethodGet, prefix+"/status", func(w http.ResponseWriter, r *http.Request) error {
			if err := s.regions.cudaStatus(r.PathValue("region")); err != nil {
				return err
			}
			writeJSON(w, http.StatusOK, []any{})
			return nil
		})
		route(http.MethodPost, prefix+"/unregister", func(http.ResponseWriter, *http.Request) error {
			return s.regions.check()
		})
	}
	route(http.MethodPost, "/v2/cudasharedmemory/region/{region}/register",
		func(_ http.ResponseWriter, r *http.Request) error {
			return errCUDA(r.PathValue("region"))
		})
}

// cudaStatus returns the error of a status request: no region of CUDA memory is registered.
func (g *regions) cudaStatus(name string) error {
	if err := g.check(); err != nil {
		return err
	}
	if name != "" {
		return errorf(NotFound, "Unable to find cuda shared memory region: '%.255s'", name)
	}
	return nil
}

// errCUDA returns the error for a CUDA region, with Triton's text.
func errCUDA(name string) error {
	return errorf(Unsupported, "failed to register CUDA shared memory region: '%.255s', GPUs not supported", name)
}

func (g *service) SystemSharedMemoryStatus(_ context.Context,
	r *inference.SystemSharedMemoryStatusRequest) (*inference.SystemSharedMemoryStatusResponse, error) {
	l, err := g.s.regions.status(r.Name)
	if err != nil {
		return nil, err
	}
	m := &inference.SystemSharedMemoryStatusResponse{
		Regions: map[string]*inference.SystemSharedMemoryStatusResponse_RegionStatus{}}
	for _, x := range l {
		m.Regions[x.Name] = x
	}
	return m, nil
}

func (g *service) SystemSharedMemoryRegister(_ context.Context,
	r *inference.SystemSharedMemoryRegisterRequest) (*inference.SystemSharedMemoryRegisterResponse, error) {
	return &inference.SystemSharedMemoryRegisterResponse{}, g.s.regions.register(r)
}

func (g *service) SystemSharedMemoryUnregister(_ context.Context,
	r *inference.SystemSharedMemoryUnregisterRequest) (*inference.SystemSharedMemoryUnregisterResponse, error) {
	return &inference.SystemSharedMemoryUnregisterResponse{}, g.s.regions.unregister(r.Name)
}

func (g *service) CudaSharedMemoryStatus(_ context.Context,
	r *inference.CudaSharedMemoryStatusRequest) (*inference.CudaSharedMemoryStatusResponse, error) {
	return &inference.CudaSharedMemoryStatusResponse{}, g.s.regions.cudaStatus(r.Name)
}

func (g *service) CudaSharedMemoryRegister(_ context.Context,
	r *inference.CudaSharedMemoryRegisterRequest) (*inference.CudaSharedMemoryRegisterResponse, error) {
	return nil, errCUDA(r.Name)
}

func (g *service) CudaSharedMemoryUnregister(context.Context,
	*inference.CudaSharedMemoryUnregisterRequest) (*inference.CudaSharedMemoryUnregisterResponse, error) {
	return &inference.CudaSharedMemoryUnregisterResponse{}, g.s.regions.check()
}
