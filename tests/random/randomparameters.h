// SPDX-License-Identifier: Apache-2.0
// What nodes are given by randomgraphs.cu, and how it is printed.
#ifndef RANDOMPARAMETERS_H
#define RANDOMPARAMETERS_H

#include "randomhandles.h"

// Parameters of each kind, printed as they are made.
static void *arguments[3];
static CUdeviceptr argumentTo;
static unsigned argumentValue;
static unsigned char argumentByte;
static double argumentNumber;

static CUDA_KERNEL_NODE_PARAMS kernelParams() {
    CUDA_KERNEL_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.func = anyFunction();
    p.gridDimX = rarely(15) ? 0 : 1 + below(3), p.gridDimY = p.gridDimZ = 1;
    p.blockDimX = rarely(15) ? pick({0u, 1024u, 1025u, 4096u}) : 32, p.blockDimY = p.blockDimZ = 1;
    p.sharedMemBytes = rarely(15) ? pick({1u, 49152u, 49153u, 1u << 24}) : 0;
    argumentTo = device[0] + 4 * below(64), argumentValue = below(1000),
    argumentByte = (unsigned char)below(256), argumentNumber = below(100);
    if (p.func == functions[1])
        arguments[0] = &argumentByte, arguments[1] = &argumentNumber, arguments[2] = &argumentTo;
    else arguments[0] = &argumentTo, arguments[1] = &argumentValue;
    p.kernelParams = rarely(20) ? nullptr : arguments;
    call("  kernel {%s %u,%u %u %s}", NM(p.func), p.gridDimX, p.blockDimX, p.sharedMemBytes,
         p.kernelParams ? "args" : "null");
    return p;
}

static void show(const CUDA_KERNEL_NODE_PARAMS &p) {
    also("{%s grid %u,%u,%u block %u,%u,%u shared %u", NM(p.func), p.gridDimX, p.gridDimY,
         p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes);
    also("extra %s kern %s ctx %s", p.extra ? "some" : "null", p.kern ? "some" : "null", NM(p.ctx));
    if (!p.kernelParams) also("no args");
    else if (p.func == functions[0])
        also("%s %u", WHERE(*(CUdeviceptr *)p.kernelParams[0]), *(unsigned *)p.kernelParams[1]);
    else if (p.func == functions[1])
        also("%u %g %s", *(unsigned char *)p.kernelParams[0], *(double *)p.kernelParams[1],
             WHERE(*(CUdeviceptr *)p.kernelParams[2]));
    also("}");
}

static void side(bool host, CUmemorytype *type, CUdeviceptr *d, void *h) {
    *type = rarely(25)  ? CUmemorytype(pick({0, 5}))
            : host      ? CU_MEMORYTYPE_HOST
            : rarely(4) ? CU_MEMORYTYPE_UNIFIED
                        : CU_MEMORYTYPE_DEVICE;
    if (*type == CU_MEMORYTYPE_HOST)
        *(void **)h = rarely(20) ? nullptr : pick({pinned, plain}) + 16 * below(4);
    else
        *d = rarely(20)                                    ? 0
             : *type == CU_MEMORYTYPE_UNIFIED && rarely(3) ? (CUdeviceptr)pinned
                                                           : device[below(2)] + 16 * below(4);
}

static CUDA_MEMCPY3D copyParams() {
    CUDA_MEMCPY3D p;
    memset(&p, 0, sizeof p);
    side(rarely(3), &p.srcMemoryType, &p.srcDevice, &p.srcHost);
    side(rarely(3), &p.dstMemoryType, &p.dstDevice, &p.dstHost);
    p.WidthInBytes = rarely(15) ? 0 : 16 + below(100);
    p.Height = rarely(15) ? 0 : 1 + below(3);
    p.Depth = rarely(15) ? 0 : rarely(5) ? 2 : 1;
    p.srcPitch = rarely(4) ? 0 : 128, p.dstPitch = rarely(4) ? 0 : 128;
    p.srcHeight = rarely(4) ? 0 : 4, p.dstHeight = rarely(4) ? 0 : 4;
    p.srcXInBytes = rarely(8) ? 8 : 0, p.srcY = rarely(8) ? 1 : 0, p.dstZ = rarely(8) ? 1 : 0;
    if (rarely(30)) p.srcLOD = 1;
    call("  copy {%d %s %d %s %zux%zux%zu pitch %zu %zu height %zu %zu at %zu,%zu %zu lod %zu}",
         int(p.srcMemoryType),
         WHERE(p.srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p.srcHost : p.srcDevice),
         int(p.dstMemoryType),
         WHERE(p.dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p.dstHost : p.dstDevice),
         p.WidthInBytes, p.Height, p.Depth, p.srcPitch, p.dstPitch, p.srcHeight, p.dstHeight,
         p.srcXInBytes, p.srcY, p.dstZ, p.srcLOD);
    return p;
}

static void show(const CUDA_MEMCPY3D &p) {
    also("{src %d host %s device %s array %s x %zu y %zu z %zu lod %zu pitch %zu height %zu",
         int(p.srcMemoryType), WHERE(p.srcHost), WHERE(p.srcDevice), NM(p.srcArray), p.srcXInBytes,
         p.srcY, p.srcZ, p.srcLOD, p.srcPitch, p.srcHeight);
    also("dst %d host %s device %s array %s x %zu y %zu z %zu lod %zu pitch %zu height %zu",
         int(p.dstMemoryType), WHERE(p.dstHost), WHERE(p.dstDevice), NM(p.dstArray), p.dstXInBytes,
         p.dstY, p.dstZ, p.dstLOD, p.dstPitch, p.dstHeight);
    also("%zux%zux%zu}", p.WidthInBytes, p.Height, p.Depth);
}

static CUDA_MEMSET_NODE_PARAMS fillParams() {
    CUDA_MEMSET_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.elementSize = rarely(15) ? pick({0u, 3u, 8u}) : 1u << below(3);
    p.dst = rarely(20)   ? 0
            : rarely(10) ? (CUdeviceptr)pinned
                         : device[below(2)] + 4 * below(8) + (rarely(15) ? 1 : 0);
    p.value = rarely(10) ? 0x12345 : below(256);
    p.width = rarely(15) ? 0 : 1 + below(16);
    p.height = rarely(15) ? 0 : rarely(2) ? 1 : 1 + below(3);
    p.pitch = rarely(3) ? 0 : rarely(15) ? 3 : 64;
    call("  fill {%s pitch %zu value %x element %u %zux%zu}", WHERE(p.dst), p.pitch, p.value,
         p.elementSize, p.width, p.height);
    return p;
}

static void show(const CUDA_MEMSET_NODE_PARAMS &p) {
    also("{%s pitch %zu value %x element %u %zux%zu}", WHERE(p.dst), p.pitch, p.value,
         p.elementSize, p.width, p.height);
}

static void CUDA_CB hostFunction(void *) {}
static void CUDA_CB otherFunction(void *) {}

static CUDA_HOST_NODE_PARAMS hostParams() {
    CUDA_HOST_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.fn = rarely(12) ? nullptr : rarely(2) ? hostFunction : otherFunction;
    p.userData = rarely(4) ? nullptr : (void *)(uintptr_t)below(100);
    call("  host {%s %zu}", NM((void *)p.fn), (size_t)p.userData);
    return p;
}

static void show(const CUDA_HOST_NODE_PARAMS &p) {
    also("{%s %zu}", NM((void *)p.fn), (size_t)p.userData);
}

static CUstreamBatchMemOpParams ops[3];

static CUDA_BATCH_MEM_OP_NODE_PARAMS opParams() {
    CUDA_BATCH_MEM_OP_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    memset(ops, 0, sizeof ops);
    p.ctx = anyContext();
    p.count = rarely(10) ? 0 : 1 + below(3);
    p.paramArray = rarely(20) ? nullptr : ops;
    p.flags = rarely(20) ? 1 : 0;
    call("  ops {%s %u %s %u", NM(p.ctx), p.count, p.paramArray ? "some" : "null", p.flags);
    for (CUstreamBatchMemOpParams &o : ops) {
        o.operation =
            CUstreamBatchMemOpType(rarely(12) ? pick({0, 3, 6, 7, 77}) : pick({1, 2, 4, 5}));
        o.writeValue.address = rarely(20) ? 0 : device[0] + 8 * below(8) + (rarely(15) ? 2 : 0);
        o.writeValue.value64 = below(1000);
        o.writeValue.flags = rarely(10) ? pick({1u, 2u, 8u, 1u << 30}) : 0;
        also("(%d %s %u %x)", int(o.operation), WHERE(o.writeValue.address),
             (unsigned)o.writeValue.value64, o.writeValue.flags);
    }
    also("}");
    return p;
}

static void show(const CUDA_BATCH_MEM_OP_NODE_PARAMS &p) {
    also("{%s %u %u", NM(p.ctx), p.count, p.flags);
    for (unsigned i = 0; p.paramArray && i < p.count; i++) {
        const CUstreamBatchMemOpParams &o = p.paramArray[i];
        also("(%d %s %llu %x)", int(o.operation), WHERE(o.writeValue.address),
             (unsigned long long)o.writeValue.value64, o.writeValue.flags);
    }
    also("}");
}

#endif
