librondo_core_la_SOURCES +=
