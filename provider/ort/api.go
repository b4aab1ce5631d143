package ort

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
)

// oldest is the oldest supported version of ONNX Runtime's C API. Version n comes with
// release 1.n and appends functions to the table of version n-1.
const oldest = 17

// fn is the index of a function in OrtApi, the function table of ONNX Runtime's C API
// (onnxruntime_c_api.h). Indices never change between releases.
type fn int

const (
	fnGetErrorCode                        fn = 1
	fnGetErrorMessage                     fn = 2
	fnCreateStatus                        fn = 0
	fnCreateEnv                           fn = 3
	fnCreateEnvWithCustomLogger           fn = 4
	fnDisableTelemetryEvents              fn = 6
	fnCreateSession                       fn = 7
	fnCreateSessionFromArray              fn = 8
	fnRun                                 fn = 9
	fnCreateSessionOptions                fn = 10
	fnSetOptimizedModelFilePath           fn = 11
	fnSetSessionExecutionMode             fn = 13
	fnEnableProfiling                     fn = 14
	fnEnableMemPattern                    fn = 16
	fnDisableMemPattern                   fn = 17
	fnEnableCPUMemArena                   fn = 18
	fnDisableCPUMemArena                  fn = 19
	fnSetSessionLogID                     fn = 20
	fnSetSessionLogVerbosityLevel         fn = 21
	fnSetSessionLogSeverityLevel          fn = 22
	fnSetSessionGraphOptimizationLevel    fn = 23
	fnSetIntraOpNumThreads                fn = 24
	fnSetInterOpNumThreads                fn = 25
	fnCreateCustomOpDomain                fn = 26
	fnCustomOpDomainAdd                   fn = 27
	fnAddCustomOpDomain                   fn = 28
	fnCreateRunOptions                    fn = 39
	fnSetRunLogVerbosityLevel             fn = 40
	fnSetRunLogSeverityLevel              fn = 41
	fnSetRunTag                           fn = 42
	fnRunOptionsSetTerminate              fn = 46
	fnCreateTensorAsOrtValue              fn = 48
	fnCreateTensorWithDataAsOrtValue      fn = 49
	fnGetTensorMutableData                fn = 51
	fnGetStringTensorDataLength           fn = 53
	fnGetStringTensorContent              fn = 54
	fnGetTensorElementType                fn = 60
	fnGetDimensionsCount                  fn = 61
	fnGetDimensions                       fn = 62
	fnGetTensorTypeAndShape               fn = 65
	fnGetValueType                        fn = 67
	fnCreateMemoryInfo                    fn = 68
	fnCreateCPUMemoryInfo                 fn = 69
	fnMemoryInfoGetName                   fn = 71
	fnMemoryInfoGetID                     fn = 72
	fnAllocatorFree                       fn = 76
	fnGetAllocatorWithDefaultOptions      fn = 78
	fnAddFreeDimensionOverride            fn = 79 // by denotation
	fnGetValue                            fn = 80
	fnGetValueCount                       fn = 81
	fnCreateValue                         fn = 82
	fnKernelContextGetInput               fn = 90
	fnKernelContextGetOutput              fn = 91
	fnReleaseStatus                       fn = 93
	fnReleaseMemoryInfo                   fn = 94
	fnReleaseSession                      fn = 95
	fnReleaseValue                        fn = 96
	fnReleaseRunOptions                   fn = 97
	fnReleaseTensorTypeAndShapeInfo       fn = 99
	fnReleaseSessionOptions               fn = 100
	fnReleaseCustomOpDomain               fn = 101
	fnSessionEndProfiling                 fn = 110
	fnAddFreeDimensionOverrideByName      fn = 124
	fnGetAvailableProviders               fn = 125
	fnReleaseAvailableProviders           fn = 126
	fnAddSessionConfigEntry               fn = 130
	fnCreateAllocator                     fn = 131
	fnReleaseAllocator                    fn = 132
	fnRunWithBinding                      fn = 133
	fnCreateIoBinding                     fn = 134
	fnReleaseIoBinding                    fn = 135
	fnBindInput                           fn = 136
	fnBindOutput                          fn = 137
	fnBindOutputToDevice                  fn = 138
	fnGetBoundOutputValues                fn = 140
	fnClearBoundInputs                    fn = 141
	fnClearBoundOutputs                   fn = 142
	fnSessionGetProfilingStartTimeNs      fn = 146
	fnAddInitializer                      fn = 150
	fnAddRunConfigEntry                   fn = 165
	fnAppendTensorRT                      fn = 170 // SessionOptionsAppendExecutionProvider_TensorRT_V2
	fnCreateTensorRTProviderOptions       fn = 171
	fnUpdateTensorRTProviderOptions       fn = 172
	fnReleaseTensorRTProviderOptions      fn = 174
	fnCreateSparseTensorAsOrtValue        fn = 179
	fnFillSparseTensorCoo                 fn = 180
	fnFillSparseTensorCsr                 fn = 181
	fnFillSparseTensorBlockSparse         fn = 182
	fnGetSparseTensorFormat               fn = 187
	fnGetSparseTensorValuesTypeAndShape   fn = 188
	fnGetSparseTensorValues               fn = 189
	fnGetSparseTensorIndicesTypeShape     fn = 190
	fnGetSparseTensorIndices              fn = 191
	fnHasValue                            fn = 192
	fnGetTensorMemoryInfo                 fn = 194
	fnSynchronizeBoundInputs              fn = 202
	fnSynchronizeBoundOutputs             fn = 203
	fnAppendCUDA                          fn = 204 // SessionOptionsAppendExecutionProvider_CUDA_V2
	fnCreateCUDAProviderOptions           fn = 205
	fnUpdateCUDAProviderOptions           fn = 206
	fnReleaseCUDAProviderOptions          fn = 208
	fnAddExternalInitializers             fn = 210
	fnMemoryInfoGetDeviceType             fn = 225
	fnRegisterCustomOpsLibrary            fn = 228 // RegisterCustomOpsLibrary_V2
	fnAppendNamed                         fn = 216 // SessionOptionsAppendExecutionProvider
	fnGetResizedStringTensorElementBuffer fn = 252
	fnGetBuildInfoString                  fn = 254
	fnSetDeterministicCompute             fn = 273 // since 1.18
	// SessionOptionsAppendExecutionProvider_OpenVINO_V2, the newest that every release has
	fnAppendOpenVINO                       fn = 275
	fnSetEpDynamicOptions                  fn = 284 // since 1.20
	fnRegisterExecutionProviderLibrary     fn = 301 // since 1.22, as are those below
	fnGetEpDevices                         fn = 303
	fnAppendDevices                        fn = 304 // SessionOptionsAppendExecutionProvider_V2
	fnSetEpSelectionPolicy                 fn = 305 // SessionOptionsSetEpSelectionPolicy
	fnHardwareDeviceType                   fn = 307
	fnEpDeviceEpName                       fn = 312
	fnEpDeviceDevice                       fn = 316
	fnGetTensorElementTypeAndShapeDataRefs fn = 414 // since 1.24
)

// sinceDevices is the first version with fnGetEpDevices and the other device functions.
const sinceDevices = 22

// sinceDynamicOptions is the first version with fnSetEpDynamicOptions.
const sinceDynamicOptions = 20

// sinceDeterministic is the first version with fnSetDeterministicCompute.
const sinceDeterministic = 18

// sinceShapeRefs is the first version with fnGetTensorElementTypeAndShapeDataRefs.
const sinceShapeRefs = 24

// address returns the address of a function of the table.
func (r *library) address(f fn) uintptr {
	return *(*uintptr)(dl.Pointer(r.table + uintptr(f)*ptrSize))
}

// do calls a function that returns an OrtStatus and converts the status to an error.
//
//go:uintptrescapes
func (r *library) do(f fn, args ...uintptr) error {
	if st := dl.Call(r.address(f), args...); st != 0 {
		return r.status(st)
	}
	return nil
}

// status converts an OrtStatus to an error and releases it.
func (r *library) status(st uintptr) error {
	code := int32(dl.Call(r.address(fnGetErrorCode), st))
	msg := dl.String(dl.Call(r.address(fnGetErrorMessage), st))
	dl.Call(r.address(fnReleaseStatus), st)
	return &driver.StatusError{Code: driver.Code(code), Message: msg}
}

// release calls a Release function unless handle is null.
func (r *library) release(f fn, handle uintptr) {
	if handle != 0 {
		dl.Call(r.address(f), handle)
	}
}

// apiVersion returns the version of the C API to request from a release.
func apiVersion(release string) (int, error) {
	major, rest, _ := strings.Cut(release, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	switch {
	case major != "1" || err != nil:
		return 0, fmt.Errorf("ONNX Runtime version is %q, want 1.%d or a later 1.x", release, oldest)
	case n < oldest:
		return 0, fmt.Errorf("ONNX Runtime version is %s, want 1.%d or later", release, oldest)
	}
	return n, nil
}
