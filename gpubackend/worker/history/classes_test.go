// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/journal"
)

// The classes of the commands that a history doesn't keep. A new command must be put into one of
// these, or be kept or refused (classes.go). Else what it has changed may be lost when a program
// goes to a file.

// asking are commands that change nothing.
var asking = []gpubackend.Op{
	gpubackend.OpCtxGetLimit, gpubackend.OpCtxGetStreamPriorityRange,
	gpubackend.OpCtxGetCacheConfig, gpubackend.OpModuleGetGlobal, gpubackend.OpLibraryGetGlobal,
	gpubackend.OpLibraryGetKernelCount, gpubackend.OpFuncDescribe, gpubackend.OpKernelDescribe,
	gpubackend.OpOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	gpubackend.OpOccupancyAvailableDynamicSMemPerBlock, gpubackend.OpManagedBytes,
	gpubackend.OpLibraryGetManaged, gpubackend.OpMemGetInfo, gpubackend.OpStreamQuery,
	gpubackend.OpEventQuery, gpubackend.OpEventElapsed, gpubackend.OpOccupancyMaxActiveClusters,
	gpubackend.OpOccupancyMaxPotentialClusterSize, gpubackend.OpTensorMapEncode,
	gpubackend.OpModuleGetFunctionCount, gpubackend.OpClusterMap, gpubackend.OpGraphNodeGetType,
	gpubackend.OpGraphNodeGetEnabled, gpubackend.OpGraphExecGetFlags,
	gpubackend.OpGraphKernelNodeGetAttribute, gpubackend.OpGraphMemory,
	gpubackend.OpMemPoolGetAttribute, gpubackend.OpLinkImage, gpubackend.OpLinkLogs,
	gpubackend.OpArrayGetDescriptor, gpubackend.OpArray3DGetDescriptor,
	gpubackend.OpArrayGetMemoryRequirements, gpubackend.OpArrayGetSparseProperties,
	gpubackend.OpMipmappedArrayGetMemoryRequirements,
	gpubackend.OpMipmappedArrayGetSparseProperties,
	gpubackend.OpDeviceGetTexture1DLinearMaxWidth, gpubackend.OpCtxGetSharedMemConfig,
	gpubackend.OpStreamGetAttribute, gpubackend.OpTexRefGetAddress, gpubackend.OpTexRefGetArray,
	gpubackend.OpTexRefGetMipmappedArray, gpubackend.OpTexRefGetAddressMode,
	gpubackend.OpTexRefGetFilterMode, gpubackend.OpTexRefGetMipmapFilterMode,
	gpubackend.OpTexRefGetMipmapLevelBias, gpubackend.OpTexRefGetMipmapLevelClamp,
	gpubackend.OpTexRefGetMaxAnisotropy, gpubackend.OpTexRefGetBorderColor,
	gpubackend.OpTexRefGetFlags, gpubackend.OpTexRefGetFormat, gpubackend.OpSurfRefGetArray,
}

// working are commands of which nothing lasts but what they write to memory, and those of a capture
// that goes on: a suspend waits until they are over.
var working = []gpubackend.Op{
	gpubackend.OpCtxSynchronize, gpubackend.OpCtxResetPersistingL2Cache,
	gpubackend.OpLaunchKernel, gpubackend.OpLaunchCooperativeKernelMultiDevice,
	gpubackend.OpCopyHtoD, gpubackend.OpCopyDtoH,
	gpubackend.OpMemcpyDtoDAsync, gpubackend.OpCopyBox, gpubackend.OpMemsetD8Async,
	gpubackend.OpMemsetD16Async, gpubackend.OpMemsetD32Async, gpubackend.OpMemsetD2D8Async,
	gpubackend.OpMemsetD2D16Async, gpubackend.OpMemsetD2D32Async, gpubackend.OpStreamSynchronize,
	gpubackend.OpStreamWaitEvent, gpubackend.OpEventRecordWithFlags,
	gpubackend.OpEventSynchronize, gpubackend.OpHostFunc, gpubackend.OpGraphLaunch,
	gpubackend.OpGraphUpload, gpubackend.OpStreamMemOps, gpubackend.OpDeviceGraphMemTrim,
	gpubackend.OpCopyArray, gpubackend.OpCtxRecordEvent, gpubackend.OpCtxWaitEvent,
	gpubackend.OpGreenCtxRecordEvent, gpubackend.OpGreenCtxWaitEvent,
	gpubackend.OpMemcpyPeerAsync, gpubackend.OpStreamBeginCapture,
	gpubackend.OpStreamUpdateCaptureDependencies,
}

// ending are commands that end what others have made, which are dropped with it.
var ending = []gpubackend.Op{
	gpubackend.OpCtxDestroy, gpubackend.OpModuleUnload, gpubackend.OpLibraryUnload,
	gpubackend.OpStreamDestroy, gpubackend.OpEventDestroy,
	gpubackend.OpArrayDestroy, gpubackend.OpMipmappedArrayDestroy,
}

// roomed are commands of rooms that save what they change, or count it as what can't be saved
// (package fixed), by what that is.
var roomed = map[string][]gpubackend.Op{
	"device memory (Saving.Allocated), and addresses": {
		gpubackend.OpMemAlloc, gpubackend.OpMemFree, gpubackend.OpMemAddressReserve,
		gpubackend.OpMemAddressFree,
	},
	"pinned memory, and that which graphs have named": {
		gpubackend.OpHostRegister, gpubackend.OpHostUnregister, gpubackend.OpHostKeep,
		gpubackend.OpHostPageable,
	},
	"graphs": {
		gpubackend.OpStreamBeginCaptureToGraph, gpubackend.OpStreamEndCapture,
		gpubackend.OpGraphCreate, gpubackend.OpGraphDestroy, gpubackend.OpGraphClone,
		gpubackend.OpGraphInstantiateWithFlags, gpubackend.OpGraphInstantiate,
		gpubackend.OpGraphExecDestroy, gpubackend.OpGraphAddDependencies,
		gpubackend.OpGraphRemoveDependencies, gpubackend.OpGraphAddNode,
		gpubackend.OpGraphNodeSet, gpubackend.OpGraphExecNodeSet, gpubackend.OpGraphDestroyNode,
		gpubackend.OpGraphExecUpdate, gpubackend.OpGraphNodeSetEnabled,
		gpubackend.OpGraphKernelNodeSetAttribute, gpubackend.OpGraphKernelNodeCopyAttributes,
		gpubackend.OpGraphConditionalHandle, gpubackend.OpGraphMemorySet,
	},
	"graphs: they ask, and what they tell of gets handles": {
		gpubackend.OpStreamCaptureInfo, gpubackend.OpGraphGetNodes,
		gpubackend.OpGraphGetRootNodes, gpubackend.OpGraphGetEdges,
		gpubackend.OpGraphNodeGetDependencies, gpubackend.OpGraphNodeGetDependentNodes,
		gpubackend.OpGraphNodeGet, gpubackend.OpGraphNodeFindInClone,
	},
	"pools": {
		gpubackend.OpMemAllocAsync, gpubackend.OpMemFreeAsync, gpubackend.OpMemPoolCreate,
		gpubackend.OpMemPoolDestroy, gpubackend.OpPoolDefault, gpubackend.OpMemPoolSetAttribute,
		gpubackend.OpMemPoolTrimTo, gpubackend.OpMemPoolExportToShareableHandle,
		gpubackend.OpMemPoolImportFromShareableHandle, gpubackend.OpMemPoolExportPointer,
		gpubackend.OpMemPoolImportPointer, gpubackend.OpPoolAccess,
	},
	"virtual memory": {
		gpubackend.OpMemCreate, gpubackend.OpMemRelease, gpubackend.OpMemMap,
		gpubackend.OpMemUnmap, gpubackend.OpMemSetAccess,
		gpubackend.OpMemExportToShareableHandle, gpubackend.OpMemImportFromShareableHandle,
	},
	"linkers": {
		gpubackend.OpLinkCreate, gpubackend.OpLinkAddData, gpubackend.OpLinkComplete,
		gpubackend.OpLinkDestroy,
	},
	"textures and surfaces": {
		gpubackend.OpTexObjectCreate, gpubackend.OpTexObjectDestroy,
		gpubackend.OpSurfObjectCreate, gpubackend.OpSurfObjectDestroy,
	},
	"memory and events of several processes": {
		gpubackend.OpIpcGetMemHandle, gpubackend.OpIpcOpenMemHandle,
		gpubackend.OpIpcCloseMemHandle, gpubackend.OpIpcGetEventHandle,
		gpubackend.OpIpcOpenEventHandle,
	},
	"green contexts, and what they are made of": {
		gpubackend.OpDevResource, gpubackend.OpResourceSplit, gpubackend.OpResourceDesc,
		gpubackend.OpGreenCtxCreate, gpubackend.OpGreenCtxDestroy,
		gpubackend.OpGreenCtxStreamCreate,
	},
	"references": {
		gpubackend.OpModuleGetTexRef, gpubackend.OpModuleGetSurfRef, gpubackend.OpTexRefCreate,
		gpubackend.OpTexRefDestroy, gpubackend.OpTexRefSetArray,
		gpubackend.OpTexRefSetMipmappedArray, gpubackend.OpTexRefSetAddress,
		gpubackend.OpTexRefSetAddress2D, gpubackend.OpTexRefSetFormat,
		gpubackend.OpTexRefSetAddressMode, gpubackend.OpTexRefSetFilterMode,
		gpubackend.OpTexRefSetMipmapFilterMode, gpubackend.OpTexRefSetMipmapLevelBias,
		gpubackend.OpTexRefSetMipmapLevelClamp, gpubackend.OpTexRefSetMaxAnisotropy,
		gpubackend.OpTexRefSetBorderColor, gpubackend.OpTexRefSetFlags,
		gpubackend.OpSurfRefSetArray, gpubackend.OpParamSetTexRef,
	},
}

// classes are all of them.
func classes() map[string][]gpubackend.Op {
	all := map[string][]gpubackend.Op{
		"makers": makers, "refusers": refusers, "asking": asking, "working": working,
		"ending": ending, "copied": {gpubackend.OpStreamCopyAttributes},
		"primary contexts": {gpubackend.OpDevicePrimaryCtxReset,
			gpubackend.OpDevicePrimaryCtxRelease},
	}
	for op := range setters {
		all["setters"] = append(all["setters"], op)
	}
	for op := range undoers {
		all["undoers"] = append(all["undoers"], op)
	}
	for what, list := range roomed {
		all["roomed: "+what] = list
	}
	return all
}

// TestClasses: every command has one class, and no setter's key has more words than there is room
// for.
func TestClasses(t *testing.T) {
	seen := map[gpubackend.Op]string{}
	for class, list := range classes() {
		for _, op := range list {
			if was := seen[op]; was != "" {
				t.Errorf("%s is of two classes, %q and %q", op.Name(), was, class)
			}
			seen[op] = class
			if !named(op) {
				t.Errorf("%s is in %q, and is no command", op.Name(), class)
			}
		}
	}
	commands := 0
	for op := range gpubackend.Op(1 << 15) {
		if !named(op) {
			continue
		}
		if commands++; seen[op] == "" {
			t.Errorf("%s has no class: may what it changes be lost when a program goes to a file?",
				op.Name())
		}
	}
	if commands < 200 {
		t.Errorf("%d commands: fewer than there are", commands)
	}
	for op, key := range setters {
		if len(key) > len(journal.Key{})-2 {
			t.Errorf("%s has a key of %d words", op.Name(), len(key))
		}
	}
	for op, undone := range undoers {
		if seen[undone] != "setters" {
			t.Errorf("%s takes back %s, which isn't kept", op.Name(), undone.Name())
		}
	}
	for op := range contextless {
		if seen[op] != "makers" {
			t.Errorf("%s isn't kept", op.Name())
		}
	}
}

// named says whether there is such a command.
func named(op gpubackend.Op) bool { return !strings.HasPrefix(op.Name(), "op ") }

// TestWorkIsNotKept: what gives the GPU work isn't done again.
func TestWorkIsNotKept(t *testing.T) {
	for _, list := range [][]gpubackend.Op{makers, asking, ending} {
		for _, op := range list {
			if op.Works() {
				t.Errorf("%s gives the GPU work", op.Name())
			}
		}
	}
}
