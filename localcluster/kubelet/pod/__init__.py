"""The life of one Pod: admission, its containers in order, its status in the API."""
