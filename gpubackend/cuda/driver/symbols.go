// SPDX-License-Identifier: Apache-2.0

package driver

// The functions that hand-written code calls, after the generated ones.
const (
	symInit symbol = iota + generatedSymbols
	symGetProcAddress
	symDriverGetVersion
	symDeviceGetCount
	symDeviceGet
	symDeviceGetName
	symDeviceGetUUID
	symDeviceGetLUID
	symDeviceTotalMem
	symDeviceGetAttribute
	symDeviceGetP2PAttribute
	symDeviceGetP2PAtomics
	symCtxSetCurrent
	symCtxPopCurrent
	symCtxSynchronize
	symModuleLoadDataEx
	symLibraryLoadData
	symFuncGetParamInfo
	symFuncGetAttribute
	symFuncGetName
	symKernelGetParamInfo
	symKernelGetAttribute
	symKernelGetName
	symLaunchKernel
	symLaunchKernelEx
	symLaunchHostFunc
	symMemAddressReserve
	symMemAddressFree
	symMemCreate
	symMemRelease
	symMemMap
	symMemUnmap
	symMemSetAccess
	symMemExport
	symMemImport
	symMemProperties
	symMemHostAlloc
	symMemFreeHost
	symMemFreeAsync
	symMemHostRegister
	symMemHostUnregister
	symPointerAttribute
	symMemcpyAsync
	symMemcpyHtoDAsync
	symMemcpyDtoHAsync
	symMemcpy2DAsync
	symMemcpy3DAsync
	symMemcpy3DPeerAsync
	symMemcpyBatchAsync
	symStreamSynchronize
	symEventCreate
	symEventSynchronize
	symEventElapsedTime
	symOccupancyMaxActiveClusters
	symOccupancyMaxPotentialClusterSize
	symTensorMapEncodeTiled
	symTensorMapEncodeIm2col
	symTensorMapEncodeIm2colWide
	symTensorMapReplaceAddress
	symLinkCreate
	symLinkAddData
	symLinkComplete
	symTexObjectCreate
	symSurfObjectCreate
	symMemRetain
	symGetExportTable
	symLaunchDevices

	// Of series, in the order that CanMakeSeries relies on.
	symSeriesCreate
	symSeriesAddKernel
	symSeriesInstantiate
	symSeriesSetParams
	symSeriesLaunch
	symSeriesExecDestroy
	symSeriesDestroy

	symAnnounce

	// Graphs and captures.
	symStreamIsCapturing
	symStreamBeginCaptureToGraph
	symStreamGetCaptureInfo
	symStreamUpdateCaptureDependencies
	symGraphInstantiateWithParams
	symGraphGetNodes
	symGraphGetRootNodes
	symGraphGetEdges
	symGraphNodeGetDependencies
	symGraphNodeGetDependentNodes
	symGraphAddDependencies
	symGraphRemoveDependencies
	symGraphAddNode
	symGraphNodeSetParams
	symGraphExecNodeSetParams
	symGraphExecUpdate
	symGraphKernelNodeSetAttribute
	symGraphKernelNodeGetAttribute
	symGraphKernelNodeGetParams
	symGraphMemcpyNodeGetParams
	symGraphMemsetNodeGetParams
	symGraphHostNodeGetParams
	symGraphChildGraphNodeGetGraph
	symGraphEventRecordNodeGetEvent
	symGraphEventWaitNodeGetEvent
	symGraphMemAllocNodeGetParams
	symGraphMemFreeNodeGetParams
	symGraphBatchMemOpNodeGetParams
	symGraphConditionalHandleCreate
	symStreamBatchMemOp
	symDeviceGetGraphMemAttribute
	symDeviceSetGraphMemAttribute

	// Green contexts.
	symDeviceGetDevResource
	symCtxGetDevResource
	symGreenCtxGetDevResource
	symDevSmResourceSplitByCount
	symDevResourceGenerateDesc
	symGreenCtxCreate
	symGreenCtxDestroy
	symCtxFromGreenCtx

	symIpcGetEventHandle
	symIpcOpenEventHandle

	symTexRefGetArray
	symTexRefGetMipmappedArray
	symSurfRefGetArray
	symbols
)

var handNames = [symbols - generatedSymbols]string{
	symInit - generatedSymbols:                  "cuInit",
	symGetProcAddress - generatedSymbols:        "cuGetProcAddress_v2",
	symDriverGetVersion - generatedSymbols:      "cuDriverGetVersion",
	symDeviceGetCount - generatedSymbols:        "cuDeviceGetCount",
	symDeviceGet - generatedSymbols:             "cuDeviceGet",
	symDeviceGetName - generatedSymbols:         "cuDeviceGetName",
	symDeviceGetUUID - generatedSymbols:         "cuDeviceGetUuid_v2",
	symDeviceGetLUID - generatedSymbols:         "cuDeviceGetLuid",
	symDeviceTotalMem - generatedSymbols:        "cuDeviceTotalMem_v2",
	symDeviceGetAttribute - generatedSymbols:    "cuDeviceGetAttribute",
	symDeviceGetP2PAttribute - generatedSymbols: "cuDeviceGetP2PAttribute",
	symDeviceGetP2PAtomics - generatedSymbols:   "cuDeviceGetP2PAtomicCapabilities",
	symCtxSetCurrent - generatedSymbols:         "cuCtxSetCurrent",
	symCtxPopCurrent - generatedSymbols:         "cuCtxPopCurrent_v2",
	symCtxSynchronize - generatedSymbols:        "cuCtxSynchronize",
	symModuleLoadDataEx - generatedSymbols:      "cuModuleLoadDataEx",
	symLibraryLoadData - generatedSymbols:       "cuLibraryLoadData",
	symFuncGetParamInfo - generatedSymbols:      "cuFuncGetParamInfo",
	symFuncGetAttribute - generatedSymbols:      "cuFuncGetAttribute",
	symFuncGetName - generatedSymbols:           "cuFuncGetName",
	symKernelGetParamInfo - generatedSymbols:    "cuKernelGetParamInfo",
	symKernelGetAttribute - generatedSymbols:    "cuKernelGetAttribute",
	symKernelGetName - generatedSymbols:         "cuKernelGetName",
	symLaunchKernel - generatedSymbols:          "cuLaunchKernel",
	symLaunchKernelEx - generatedSymbols:        "cuLaunchKernelEx",
	symLaunchHostFunc - generatedSymbols:        "cuLaunchHostFunc",
	symMemAddressReserve - generatedSymbols:     "cuMemAddressReserve",
	symMemAddressFree - generatedSymbols:        "cuMemAddressFree",
	symMemCreate - generatedSymbols:             "cuMemCreate",
	symMemRelease - generatedSymbols:            "cuMemRelease",
	symMemMap - generatedSymbols:                "cuMemMap",
	symMemUnmap - generatedSymbols:              "cuMemUnmap",
	symMemSetAccess - generatedSymbols:          "cuMemSetAccess",
	symMemExport - generatedSymbols:             "cuMemExportToShareableHandle",
	symMemImport - generatedSymbols:             "cuMemImportFromShareableHandle",
	symMemProperties - generatedSymbols:         "cuMemGetAllocationPropertiesFromHandle",
	symMemHostAlloc - generatedSymbols:          "cuMemHostAlloc",
	symMemFreeHost - generatedSymbols:           "cuMemFreeHost",
	symMemFreeAsync - generatedSymbols:          "cuMemFreeAsync",
	symMemHostRegister - generatedSymbols:       "cuMemHostRegister_v2",
	symMemHostUnregister - generatedSymbols:     "cuMemHostUnregister",
	symPointerAttribute - generatedSymbols:      "cuPointerGetAttribute",
	symMemcpyAsync - generatedSymbols:           "cuMemcpyAsync",
	symMemcpyHtoDAsync - generatedSymbols:       "cuMemcpyHtoDAsync_v2",
	symMemcpyDtoHAsync - generatedSymbols:       "cuMemcpyDtoHAsync_v2",
	symMemcpy2DAsync - generatedSymbols:         "cuMemcpy2DAsync_v2",
	symMemcpy3DAsync - generatedSymbols:         "cuMemcpy3DAsync_v2",
	symMemcpy3DPeerAsync - generatedSymbols:     "cuMemcpy3DPeerAsync",
	symMemcpyBatchAsync - generatedSymbols:      "cuMemcpyBatchAsync_v2",
	symStreamSynchronize - generatedSymbols:     "cuStreamSynchronize",
	symEventCreate - generatedSymbols:           "cuEventCreate",
	symEventSynchronize - generatedSymbols:      "cuEventSynchronize",
	symEventElapsedTime - generatedSymbols:      "cuEventElapsedTime",

	symOccupancyMaxActiveClusters - generatedSymbols:       "cuOccupancyMaxActiveClusters",
	symOccupancyMaxPotentialClusterSize - generatedSymbols: "cuOccupancyMaxPotentialClusterSize",
	symTensorMapEncodeTiled - generatedSymbols:             "cuTensorMapEncodeTiled",
	symTensorMapEncodeIm2col - generatedSymbols:            "cuTensorMapEncodeIm2col",
	symTensorMapEncodeIm2colWide - generatedSymbols:        "cuTensorMapEncodeIm2colWide",
	symTensorMapReplaceAddress - generatedSymbols:          "cuTensorMapReplaceAddress",
	symLinkCreate - generatedSymbols:                       "cuLinkCreate_v2",
	symLinkAddData - generatedSymbols:                      "cuLinkAddData_v2",
	symLinkComplete - generatedSymbols:                     "cuLinkComplete",
	symTexObjectCreate - generatedSymbols:                  "cuTexObjectCreate",
	symSurfObjectCreate - generatedSymbols:                 "cuSurfObjectCreate",
	symMemRetain - generatedSymbols:                        "cuMemRetainAllocationHandle",
	symGetExportTable - generatedSymbols:                   "cuGetExportTable",
	symLaunchDevices - generatedSymbols:                    "cuLaunchCooperativeKernelMultiDevice",

	symSeriesCreate - generatedSymbols:      "cuGraphCreate",
	symSeriesAddKernel - generatedSymbols:   "cuGraphAddKernelNode_v2",
	symSeriesInstantiate - generatedSymbols: "cuGraphInstantiateWithFlags",
	symSeriesSetParams - generatedSymbols:   "cuGraphExecKernelNodeSetParams_v2",
	symSeriesLaunch - generatedSymbols:      "cuGraphLaunch",
	symSeriesExecDestroy - generatedSymbols: "cuGraphExecDestroy",
	symSeriesDestroy - generatedSymbols:     "cuGraphDestroy",
	symAnnounce - generatedSymbols:          "cuStreamWriteValue32_v2",

	symStreamIsCapturing - generatedSymbols:               "cuStreamIsCapturing",
	symStreamBeginCaptureToGraph - generatedSymbols:       "cuStreamBeginCaptureToGraph",
	symStreamGetCaptureInfo - generatedSymbols:            "cuStreamGetCaptureInfo_v3",
	symStreamUpdateCaptureDependencies - generatedSymbols: "cuStreamUpdateCaptureDependencies_v2",
	symGraphInstantiateWithParams - generatedSymbols:      "cuGraphInstantiateWithParams",
	symGraphGetNodes - generatedSymbols:                   "cuGraphGetNodes",
	symGraphGetRootNodes - generatedSymbols:               "cuGraphGetRootNodes",
	symGraphGetEdges - generatedSymbols:                   "cuGraphGetEdges_v2",
	symGraphNodeGetDependencies - generatedSymbols:        "cuGraphNodeGetDependencies_v2",
	symGraphNodeGetDependentNodes - generatedSymbols:      "cuGraphNodeGetDependentNodes_v2",
	symGraphAddDependencies - generatedSymbols:            "cuGraphAddDependencies_v2",
	symGraphRemoveDependencies - generatedSymbols:         "cuGraphRemoveDependencies_v2",
	symGraphAddNode - generatedSymbols:                    "cuGraphAddNode_v2",
	symGraphNodeSetParams - generatedSymbols:              "cuGraphNodeSetParams",
	symGraphExecNodeSetParams - generatedSymbols:          "cuGraphExecNodeSetParams",
	symGraphExecUpdate - generatedSymbols:                 "cuGraphExecUpdate_v2",
	symGraphKernelNodeSetAttribute - generatedSymbols:     "cuGraphKernelNodeSetAttribute",
	symGraphKernelNodeGetAttribute - generatedSymbols:     "cuGraphKernelNodeGetAttribute",
	symGraphKernelNodeGetParams - generatedSymbols:        "cuGraphKernelNodeGetParams_v2",
	symGraphMemcpyNodeGetParams - generatedSymbols:        "cuGraphMemcpyNodeGetParams",
	symGraphMemsetNodeGetParams - generatedSymbols:        "cuGraphMemsetNodeGetParams",
	symGraphHostNodeGetParams - generatedSymbols:          "cuGraphHostNodeGetParams",
	symGraphChildGraphNodeGetGraph - generatedSymbols:     "cuGraphChildGraphNodeGetGraph",
	symGraphEventRecordNodeGetEvent - generatedSymbols:    "cuGraphEventRecordNodeGetEvent",
	symGraphEventWaitNodeGetEvent - generatedSymbols:      "cuGraphEventWaitNodeGetEvent",
	symGraphMemAllocNodeGetParams - generatedSymbols:      "cuGraphMemAllocNodeGetParams",
	symGraphMemFreeNodeGetParams - generatedSymbols:       "cuGraphMemFreeNodeGetParams",
	symGraphBatchMemOpNodeGetParams - generatedSymbols:    "cuGraphBatchMemOpNodeGetParams",
	symGraphConditionalHandleCreate - generatedSymbols:    "cuGraphConditionalHandleCreate",
	symStreamBatchMemOp - generatedSymbols:                "cuStreamBatchMemOp_v2",
	symDeviceGetGraphMemAttribute - generatedSymbols:      "cuDeviceGetGraphMemAttribute",
	symDeviceSetGraphMemAttribute - generatedSymbols:      "cuDeviceSetGraphMemAttribute",

	symDeviceGetDevResource - generatedSymbols:      "cuDeviceGetDevResource",
	symCtxGetDevResource - generatedSymbols:         "cuCtxGetDevResource",
	symGreenCtxGetDevResource - generatedSymbols:    "cuGreenCtxGetDevResource",
	symDevSmResourceSplitByCount - generatedSymbols: "cuDevSmResourceSplitByCount",
	symDevResourceGenerateDesc - generatedSymbols:   "cuDevResourceGenerateDesc",
	symGreenCtxCreate - generatedSymbols:            "cuGreenCtxCreate",
	symGreenCtxDestroy - generatedSymbols:           "cuGreenCtxDestroy",
	symCtxFromGreenCtx - generatedSymbols:           "cuCtxFromGreenCtx",
	symIpcGetEventHandle - generatedSymbols:         "cuIpcGetEventHandle",
	symIpcOpenEventHandle - generatedSymbols:        "cuIpcOpenEventHandle",
	symTexRefGetArray - generatedSymbols:            "cuTexRefGetArray",
	symTexRefGetMipmappedArray - generatedSymbols:   "cuTexRefGetMipmappedArray",
	symSurfRefGetArray - generatedSymbols:           "cuSurfRefGetArray",
}

// required are the functions without which nothing works; missing others answer NotSupported.
var required = []symbol{
	symInit, symDriverGetVersion, symDeviceGetCount, symDeviceGet, symDeviceGetAttribute,
	symDeviceTotalMem,
	symCtxSetCurrent, symCtxSynchronize, symDevicePrimaryCtxRetain, symModuleLoadDataEx,
	symLaunchKernel,
	symMemAddressReserve, symMemCreate, symMemMap, symMemUnmap, symMemSetAccess, symMemRelease,
	symMemcpyAsync,
	symStreamQuery, symStreamCreateWithPriority,
}

func symbolName(s symbol) string {
	if s < generatedSymbols {
		return generatedNames[s]
	}
	return handNames[s-generatedSymbols]
}

// streamArgument is the position, from 1, of the stream in the generated calls that give it work.
var streamArgument = [symbols]uint8{
	symMemcpyDtoDAsync:      4,
	symMemsetD8Async:        4,
	symMemsetD16Async:       4,
	symMemsetD32Async:       4,
	symMemsetD2D8Async:      6,
	symMemsetD2D16Async:     6,
	symMemsetD2D32Async:     6,
	symStreamWaitEvent:      1,
	symEventRecordWithFlags: 2,
	symMemcpyAsync:          4,
	symMemcpyHtoDAsync:      4,
	symMemcpy2DAsync:        2,
	symMemcpy3DAsync:        2,
	symMemcpyPeerAsync:      6,
	symMemcpy3DPeerAsync:    2,
	symMemcpyBatchAsync:     8,
	symLaunchHostFunc:       1,
	symGraphLaunch:          2,
	symGraphUpload:          2,
	symMemFreeAsync:         2,
	symStreamBatchMemOp:     1,
}
