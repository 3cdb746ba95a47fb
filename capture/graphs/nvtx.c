/*
 * nvtx.c - see nvtx.h. The domain is called autograph. A range says how many launches its graph
 * carries, in its text and as its payload.
 */
#include "capture/graphs/nvtx.h"
#include "capture/settings/log.h"
#include <stdio.h>
#include <stdlib.h>

_Atomic bool ag_nvtx;

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

enum { COLOR = 0xff2f8f5b };

static nvtxDomainHandle_t domain;

void ag_nvtx_start(void)
{
    const char *tool = secure_getenv("NVTX_INJECTION64_PATH");
    if (!tool || !*tool)
        return;
    domain = nvtxDomainCreateA("autograph"); /* loads the tool, unless the program has done so */
    ag_nvtx = domain != NULL;
    ag_info("start", "NVTX ranges: %s",
            ag_nvtx ? "on" : "off, the tool of NVTX_INJECTION64_PATH does not take them");
}

void ag_nvtx_push(uint32_t launches)
{
    char text[48];
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .colorType = NVTX_COLOR_ARGB,
                                   .color = COLOR,
                                   .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                   .payload.ullValue = launches,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = text};
    snprintf(text, sizeof(text), "graph of %u launches", launches);
    nvtxDomainRangePushEx(domain, &event);
}

void ag_nvtx_pop(void)
{
    nvtxDomainRangePop(domain);
}

#else /* a toolkit without NVTX */

void ag_nvtx_start(void)
{
}

void ag_nvtx_push(uint32_t launches)
{
    (void)launches;
}

void ag_nvtx_pop(void)
{
}

#endif
