// Package driver defines what a provider implements, as database/sql/driver does for
// databases. Programs that run models use package onward; only providers import this
// package.
//
// A provider registers itself in an init function, so that a blank import enables it:
//
//	func init() { driver.Register(provider{}) }
//
// [Provider] and [Engine] are required. The other interfaces are optional:
//
//   - [Describer]: a provider that computes on a device, reads model files or applies the
//     options itself
//   - [LibraryUser]: a provider that opens a native library
//   - [Binder]: an engine that reads and writes bound memory in place
//   - [Allocator]: an engine with memory on a device
//   - [Profiler]: an engine that writes its own profile
package driver
