/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML offers and a VM does not: the state and control of the hardware. */
#define _GNU_SOURCE
#include <unistd.h>

#include "nvml.h"

#define UNSUPPORTED(name)                                               \
	EXPORT enum nvml name(const void *handle);                      \
	EXPORT enum nvml name(const void *handle)                       \
	{                                                               \
		return gpu_of(handle) ? NVML_NOT_SUPPORTED : gpu_error(); \
	}

UNSUPPORTED(nvmlDeviceClearAccountingPids)
UNSUPPORTED(nvmlDeviceGetAccountingMode)
UNSUPPORTED(nvmlDeviceGetApplicationsClock)
UNSUPPORTED(nvmlDeviceGetArchitecture)
UNSUPPORTED(nvmlDeviceGetAutoBoostedClocksEnabled)
UNSUPPORTED(nvmlDeviceGetBAR1MemoryInfo)
UNSUPPORTED(nvmlDeviceGetBoardId)
UNSUPPORTED(nvmlDeviceGetBoardPartNumber)
UNSUPPORTED(nvmlDeviceGetClock)
UNSUPPORTED(nvmlDeviceGetClockInfo)
UNSUPPORTED(nvmlDeviceGetCpuAffinity)
UNSUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
UNSUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
UNSUPPORTED(nvmlDeviceGetCurrentClocksThrottleReasons)
UNSUPPORTED(nvmlDeviceGetDecoderUtilization)
UNSUPPORTED(nvmlDeviceGetDefaultApplicationsClock)
UNSUPPORTED(nvmlDeviceGetDetailedEccErrors)
UNSUPPORTED(nvmlDeviceGetDriverModel)
UNSUPPORTED(nvmlDeviceGetDriverModel_v2)
UNSUPPORTED(nvmlDeviceGetEccMode)
UNSUPPORTED(nvmlDeviceGetEncoderUtilization)
UNSUPPORTED(nvmlDeviceGetEnforcedPowerLimit)
UNSUPPORTED(nvmlDeviceGetFanSpeed)
UNSUPPORTED(nvmlDeviceGetFieldValues)
UNSUPPORTED(nvmlDeviceGetGpuFabricInfo)
UNSUPPORTED(nvmlDeviceGetGpuFabricInfoV)
UNSUPPORTED(nvmlDeviceGetGpuOperationMode)
UNSUPPORTED(nvmlDeviceGetInforomVersion)
UNSUPPORTED(nvmlDeviceGetMaxClockInfo)
UNSUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
UNSUPPORTED(nvmlDeviceGetMaxPcieLinkWidth)
UNSUPPORTED(nvmlDeviceGetMemoryErrorCounter)
UNSUPPORTED(nvmlDeviceGetMigDeviceHandleByIndex)
UNSUPPORTED(nvmlDeviceGetNvLinkCapability)
UNSUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
UNSUPPORTED(nvmlDeviceGetNvLinkState)
UNSUPPORTED(nvmlDeviceGetNvLinkVersion)
UNSUPPORTED(nvmlDeviceGetP2PStatus)
UNSUPPORTED(nvmlDeviceGetPcieReplayCounter)
UNSUPPORTED(nvmlDeviceGetPcieThroughput)
UNSUPPORTED(nvmlDeviceGetPerformanceState)
UNSUPPORTED(nvmlDeviceGetPowerManagementLimit)
UNSUPPORTED(nvmlDeviceGetPowerManagementLimitConstraints)
UNSUPPORTED(nvmlDeviceGetPowerManagementMode)
UNSUPPORTED(nvmlDeviceGetPowerUsage)
UNSUPPORTED(nvmlDeviceGetRetiredPages)
UNSUPPORTED(nvmlDeviceGetRetiredPagesPendingStatus)
UNSUPPORTED(nvmlDeviceGetSerial)
UNSUPPORTED(nvmlDeviceGetSupportedClocksThrottleReasons)
UNSUPPORTED(nvmlDeviceGetTemperature)
UNSUPPORTED(nvmlDeviceGetTemperatureThreshold)
UNSUPPORTED(nvmlDeviceGetTemperatureV)
UNSUPPORTED(nvmlDeviceGetTopologyCommonAncestor)
UNSUPPORTED(nvmlDeviceGetTotalEccErrors)
UNSUPPORTED(nvmlDeviceGetTotalEnergyConsumption)
UNSUPPORTED(nvmlDeviceGetUtilizationRates)
UNSUPPORTED(nvmlDeviceGetVbiosVersion)
UNSUPPORTED(nvmlDeviceGetViolationStatus)
UNSUPPORTED(nvmlDeviceGetVirtualizationMode)

/* Events: a set can be made and waited for, nothing ever happens. */
EXPORT enum nvml nvmlEventSetCreate(void **set)
{
	static char only;

	if (!set)
		return NVML_INVALID_ARGUMENT;
	*set = &only;
	return gpu_count() ? NVML_SUCCESS : NVML_UNINITIALIZED;
}

EXPORT enum nvml nvmlEventSetFree(void *set)
{
	return set ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

EXPORT enum nvml nvmlDeviceGetSupportedEventTypes(const void *handle, unsigned long long *types)
{
	if (!gpu_of(handle))
		return gpu_error();
	if (!types)
		return NVML_INVALID_ARGUMENT;
	*types = 0;
	return NVML_SUCCESS;
}

EXPORT enum nvml nvmlDeviceRegisterEvents(const void *handle, unsigned long long types, void *set)
{
	(void)types;
	if (!gpu_of(handle))
		return gpu_error();
	return set ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

EXPORT enum nvml nvmlEventSetWait_v2(void *set, void *data, unsigned milliseconds)
{
	(void)data;
	if (!set)
		return NVML_INVALID_ARGUMENT;
	usleep((useconds_t)milliseconds * 1000);
	return NVML_TIMEOUT;
}

EXPORT enum nvml nvmlEventSetWait(void *set, void *data, unsigned milliseconds)
{
	return nvmlEventSetWait_v2(set, data, milliseconds);
}
