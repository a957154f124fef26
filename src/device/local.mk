librondo_core_la_SOURCES += src/device/device.h src/device/host.c
