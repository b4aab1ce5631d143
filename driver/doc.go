// Package driver defines the interfaces that providers implement, as
// database/sql/driver does for databases. Programs that run models use package onward;
// only providers need this package.
//
// A provider registers itself in an init function, so that a blank import enables it:
//
//	func init() { driver.Register(provider{}) }
//
// [Provider] and [Engine] are required. The other interfaces are optional:
//
//   - [Describer]: a provider that computes on a device, reads model files or applies
//     options itself
//   - [LibraryUser]: a provider that opens a native library
//   - [Binder]: an engine that reads and writes bound memory in place
//   - [Allocator]: an engine that allocates memory on a device
//   - [DynamicOptions]: an engine with options that may change while it is in use
//   - [Profiler]: an engine that writes its own profile
package driver
