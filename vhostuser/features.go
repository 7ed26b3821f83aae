// SPDX-License-Identifier: Apache-2.0

package vhostuser

// Virtio features that the session offers beside those of the device.
const (
	FeatureProtocol = 1 << 30 // VHOST_USER_F_PROTOCOL_FEATURES, between front end and back end only
	FeatureLogAll   = 1 << 26 // VHOST_F_LOG_ALL: offered if the device is a DirtyLogger
	FeatureIndirect = 1 << 28 // VIRTIO_F_INDIRECT_DESC
	FeatureEventIdx = 1 << 29 // VIRTIO_F_EVENT_IDX
	FeatureVersion1 = 1 << 32 // VIRTIO_F_VERSION_1
)

// Protocol features that are implemented. Others must not be offered, as QEMU accepts all that are.
const (
	ProtocolMQ          = 1 << 0
	ProtocolLogShmFD    = 1 << 1 // offered if the device is a DirtyLogger
	ProtocolReplyAck    = 1 << 3
	ProtocolBackendReq  = 1 << 5
	ProtocolConfig      = 1 << 9
	ProtocolInFlight    = 1 << 12 // offered if the device is an InFlightTracker
	ProtocolResetDevice = 1 << 13
	ProtocolMemSlots    = 1 << 15
	ProtocolDeviceState = 1 << 19 // offered if the device is a StateSaver

	// ProtocolFeatures are those that are offered for every device.
	ProtocolFeatures = ProtocolMQ | ProtocolReplyAck | ProtocolBackendReq | ProtocolConfig |
		ProtocolResetDevice | ProtocolMemSlots
)

// reservedFeatures are virtio features that a Device may not offer: they concern the rings or the
// transport, which the session serves, and packed rings aren't implemented.
const reservedFeatures = FeatureLogAll | 1<<27 | FeatureIndirect | FeatureEventIdx |
	FeatureProtocol | 1<<31 | FeatureVersion1 | 1<<33 | 1<<34 | 1<<35 | 1<<40

// transportFeatures are those that a Device doesn't hear of.
const transportFeatures = FeatureProtocol | FeatureLogAll

// VringLog in the flags of SET_VRING_ADDR asks for writes to the used ring to be logged.
const VringLog = 1 << 0

// protocolOf returns the protocol features that are offered for a device.
func protocolOf(dev Device) uint64 {
	features := uint64(ProtocolFeatures)
	if _, ok := dev.(DirtyLogger); ok {
		features |= ProtocolLogShmFD
	}
	if _, ok := dev.(StateSaver); ok {
		features |= ProtocolDeviceState
	}
	if _, ok := dev.(InFlightTracker); ok {
		features |= ProtocolInFlight
	}
	return features
}
