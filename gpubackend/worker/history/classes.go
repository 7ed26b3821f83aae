// SPDX-License-Identifier: Apache-2.0

package history

import "github.com/paracuda/paracuda/gpubackend"

// Every command is of one class. Those not named here change nothing that lasts: they ask, they
// give the device work, they end something, or a room knows what they make, and saves it or counts
// it as fixed (package fixed). A test lists all commands: it fails for a new one until that has a
// class.

// makers make objects, unless these exist already.
var makers = []gpubackend.Op{
	gpubackend.OpDevicePrimaryCtxRetain, gpubackend.OpCtxCreate,
	gpubackend.OpModuleLoadData, gpubackend.OpModuleGetFunction,
	gpubackend.OpModuleEnumerateFunctions,
	gpubackend.OpLibraryLoadData, gpubackend.OpLibraryGetKernel, gpubackend.OpLibraryGetModule,
	gpubackend.OpLibraryEnumerateKernels, gpubackend.OpKernelGetFunction,
	gpubackend.OpStreamCreateWithPriority, gpubackend.OpEventCreate,
	gpubackend.OpArrayCreate, gpubackend.OpArray3DCreate, gpubackend.OpMipmappedArrayCreate,
	gpubackend.OpMipmappedArrayGetLevel, gpubackend.OpArrayGetPlane,
}

// contextless are the makers that need no current context: what they make outlives contexts.
var contextless = map[gpubackend.Op]bool{
	gpubackend.OpDevicePrimaryCtxRetain: true, gpubackend.OpCtxCreate: true,
	gpubackend.OpLibraryLoadData: true, gpubackend.OpLibraryGetKernel: true,
	gpubackend.OpLibraryEnumerateKernels: true, gpubackend.OpMipmappedArrayGetLevel: true,
	gpubackend.OpArrayGetPlane: true,
}

// setters set something of an object, or of the context, that lasts. The value says which of their
// words tell one setting from another, in addition to the command itself and the context.
var setters = gpubackend.Setters()

// undoers take back what a setter with the same key has set.
var undoers = map[gpubackend.Op]gpubackend.Op{
	gpubackend.OpCtxDisablePeerAccess: gpubackend.OpCtxEnablePeerAccess,
}

// refusers do things that aren't kept: from then on the objects can't be made again.
var refusers = []gpubackend.Op{
	gpubackend.OpModuleLoadManaged, gpubackend.OpLibraryLoadManaged,
}
