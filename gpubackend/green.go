// SPDX-License-Identifier: Apache-2.0

package gpubackend

import "github.com/paracuda/paracuda/gpubackend/cudaabi"

// Resource is a CUdevResource as the driver made it. Its contents come from the driver, never from
// a guest.
type Resource [cudaabi.DevResourceSize]byte

// Kind is the type of the resource (CUdevResourceType).
func (r *Resource) Kind() uint32 { return cudaabi.DevResource(r[:]).Type() }

// Multiprocessors returns how many a resource of multiprocessors has, the fewest that can be split
// off, and of which number a part must be a multiple. The latter two are 0 where the driver doesn't
// say.
func (r *Resource) Multiprocessors() (count, partition, alignment uint32) {
	d := cudaabi.DevResource(r[:])
	return d.SMCount(), d.MinSMPartitionSize(), d.SMCoscheduledAlignment()
}

// SetMultiprocessors makes r a resource of multiprocessors.
func (r *Resource) SetMultiprocessors(count, partition, alignment uint32) {
	d := cudaabi.DevResource(r[:])
	d.SetType(cudaabi.DevResourceTypeSM)
	d.SetSMCount(count)
	d.SetMinSMPartitionSize(partition)
	d.SetSMCoscheduledAlignment(alignment)
}

// ResourceSource says what has a resource.
type ResourceSource uint64

// What can have a resource, by the numbers of op DevResource.
const (
	OfDevice ResourceSource = iota
	OfContext
	OfGreenContext
)

// ResourceDesc is a CUdevResourceDesc. There is no function that frees one.
type ResourceDesc uint64

// MaxResourceGroups bounds the groups of a split.
const MaxResourceGroups = cudaabi.MaxResourceRecords - 1

// Partitioning has green contexts: parts of a device to which work is confined. Nothing in it needs
// a current context.
type Partitioning interface {
	// DevResource describes what a device (its number), a context or a green context has of a type.
	DevResource(of ResourceSource, which, kind uint64) (Resource, Result)
	// SplitResource splits multiprocessors into at most len(groups) groups, which it returns with
	// what remains. Without groups it says how many there would be.
	SplitResource(r *Resource, groups []Resource, flags, least uint64) (n int, rest Resource,
		result Result)
	// DescribeResources makes a descriptor of resources.
	DescribeResources(rs []Resource) (ResourceDesc, Result)
	// GreenCtxCreate makes a green context and the context by which it is made current. That
	// context shares all but its streams with the device's primary context, which the caller
	// retains too.
	GreenCtxCreate(desc ResourceDesc, dev, flags uint64) (GreenContext, Context, Result)
	// GreenCtxDestroy ends both. It may wait for the work in it.
	GreenCtxDestroy(g GreenContext) Result
}

// DevResource returns NotSupported.
func (Unsupported) DevResource(ResourceSource, uint64, uint64) (r Resource, result Result) {
	return r, NotSupported
}

// SplitResource returns NotSupported.
func (Unsupported) SplitResource(
	*Resource, []Resource, uint64, uint64,
) (n int, rest Resource, result Result) {
	return 0, rest, NotSupported
}

// DescribeResources returns NotSupported.
func (Unsupported) DescribeResources([]Resource) (ResourceDesc, Result) { return 0, NotSupported }

// GreenCtxCreate returns NotSupported.
func (Unsupported) GreenCtxCreate(ResourceDesc, uint64, uint64) (GreenContext, Context, Result) {
	return 0, 0, NotSupported
}

// GreenCtxDestroy returns NotSupported.
func (Unsupported) GreenCtxDestroy(GreenContext) Result { return NotSupported }
