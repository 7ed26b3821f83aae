// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
)

// SpecialRegister is a register to be filled with a special register.
type SpecialRegister struct {
	Off   uint32
	Width lanes.Width
	Value Special
}

// Special numbers the special registers whose value doesn't change while a block runs.
type Special uint8

// SpecialNames are their names.
var SpecialNames = []string{
	"tid.x",
	"tid.y",
	"tid.z",
	"laneid",
	"lanemask_eq",
	"lanemask_lt",
	"lanemask_le",
	"lanemask_gt",
	"lanemask_ge",
	"warpid",
	"ntid.x",
	"ntid.y",
	"ntid.z",
	"nctaid.x",
	"nctaid.y",
	"nctaid.z",
	"nwarpid",
	"nsmid",
	"gridid",
	"envreg1",
	"envreg2",
	"dynamic_smem_size",
	"total_smem_size",
	"aggr_smem_size",
	ReservedPrefix + "begin",
	ReservedPrefix + "end",
	ReservedPrefix + "cap",
	ReservedPrefix + "0",
	ReservedPrefix + "1",
	"ctaid.x",
	"ctaid.y",
	"ctaid.z",
	"smid",
	"clusterid.x",
	"clusterid.y",
	"clusterid.z",
	"nclusterid.x",
	"nclusterid.y",
	"nclusterid.z",
	"cluster_nctaid.x",
	"cluster_nctaid.y",
	"cluster_nctaid.z",
	"cluster_ctaid.x",
	"cluster_ctaid.y",
	"cluster_ctaid.z",
	"cluster_ctarank",
	"cluster_nctarank",
	"is_explicit_cluster",
}

// specialNamed finds one by its name.
func specialNamed(name string) (Special, bool) {
	i := slices.Index(SpecialNames, name)
	return Special(i), i >= 0
}

// Reserved shared memory, as GPUs of compute capability 8.0 and later have it. Here it lies behind
// a block's own. Cooperative groups have at least 288 bytes of it, which are 0 when a block begins.
const (
	ReservedPrefix   = "reserved_smem_offset_"
	ReservedShared   = 1 << 10
	ReservedAlign    = 128
	ReservedOfGroups = ReservedShared / 2
)
