package openvino

import (
	"strings"
	"time"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
)

// profilingInfo is ov_profiling_info_t. Times are in microseconds.
type profilingInfo struct {
	status            int32
	realTime, cpuTime int64
	name, exec, op    uintptr // C strings: node, kernel, operator
}

// perfCount is the property that makes OpenVINO count the time of nodes.
const perfCount = "PERF_COUNT"

// The values of ov_profiling_info_t::status.
const (
	notRun   = 0
	executed = 2
)

// ran reports whether a run executed the node. The CPU plug-in also gives status NOT_RUN to
// nodes that took less than a microsecond. Those have a kernel, unlike nodes that were fused
// into others ("undef") and graph inputs and outputs ("unknown").
func (n *profilingInfo) ran() bool {
	kernel := dl.String(n.exec)
	return n.status == executed || n.status == notRun && kernel != "" && !strings.HasPrefix(kernel, "undef") &&
		!strings.HasPrefix(kernel, "unknown")
}

// observe calls fn for each node that the last run of a request has executed, in OpenVINO's
// order and with OpenVINO's names: plug-ins fuse and insert nodes. OpenVINO tells durations
// only, so that starts are sums of them, and no values.
func (s *session) observe(st *state, start time.Time, fn func(driver.NodeRun)) error {
	list := new([2]uintptr) // ov_profiling_info_list_t: nodes, number
	if err := s.lib.do(fnProfile, st.request, uintptr(unsafe.Pointer(list))); err != nil {
		return err
	}
	defer dl.Call(s.lib.table[fnProfileFree], uintptr(unsafe.Pointer(list)))
	index := 0
	for _, n := range unsafe.Slice((*profilingInfo)(dl.Pointer(list[0])), list[1]) {
		if !n.ran() {
			continue
		}
		d := time.Duration(n.realTime) * time.Microsecond
		fn(driver.NodeRun{Index: index, Name: dl.String(n.name), OpType: dl.String(n.op), Start: start, Duration: d})
		start = start.Add(d)
		index++
	}
	return nil
}
